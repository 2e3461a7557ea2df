//! Matrices of weights, and products with them, spread over the threads of the pool that the caller runs in.

use rayon::prelude::*;

use crate::act::{Act, Act32, Act256};
use crate::blocks::{Block, Brain, Eight, Five, FiveK, Four, FourK, Half, ROWS, Single, SixK};
use crate::dot::{Sums, products};
use crate::error::Fault;
use crate::gguf::{Gguf, Kind};

/// Weights, row by row.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    blocks: Blocks,
}

#[derive(Debug)]
enum Blocks {
    FourCentred(Vec<Four<true>>),
    Four(Vec<Four<false>>),
    Five(Vec<Five>),
    Eight(Vec<Eight>),
    FourK(Vec<FourK>),
    FiveK(Vec<FiveK>),
    SixK(Vec<SixK>),
    Half(Vec<Half>),
    Brain(Vec<Brain>),
    Single(Vec<Single>),
}

/// Does the same with the blocks of every kind.
macro_rules! each {
    ($blocks:expr, $name:ident => $do:expr) => {
        match $blocks {
            Blocks::FourCentred($name) => $do,
            Blocks::Four($name) => $do,
            Blocks::Five($name) => $do,
            Blocks::Eight($name) => $do,
            Blocks::FourK($name) => $do,
            Blocks::FiveK($name) => $do,
            Blocks::SixK($name) => $do,
            Blocks::Half($name) => $do,
            Blocks::Brain($name) => $do,
            Blocks::Single($name) => $do,
        }
    };
}

/// Tokens as products take them, in the forms that the weights need.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    tokens: usize,
    by_32: Vec<Act32>,
    by_256: Vec<Act256>,
    plain: Vec<f32>,
}

impl Acts {
    /// Takes rows of `columns` numbers in the forms that `matrices` need.
    pub(crate) fn take(&mut self, rows: &[f32], columns: usize, matrices: &[&Matrix]) {
        self.tokens = rows.len() / columns;
        let needs = |form: Form| matrices.iter().any(|matrix| matrix.form() == form);
        if needs(Form::By32) {
            fill(&mut self.by_32, rows, self.tokens);
        }
        if needs(Form::By256) {
            fill(&mut self.by_256, rows, self.tokens);
        }
        if needs(Form::Plain) {
            self.plain.clear();
            self.plain.extend_from_slice(rows);
        }
    }
}

struct Fill<'a, A>(&'a mut [A], &'a [f32]);

impl<A: Act> crate::wide::Loop for Fill<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (act, numbers) in self.0.iter_mut().zip(self.1.chunks_exact(A::COLUMNS)) {
            *act = A::of(numbers);
        }
    }
}

fn fill<A: Act>(acts: &mut Vec<A>, numbers: &[f32], tokens: usize) {
    let count = numbers.len() / A::COLUMNS;
    acts.resize(count, A::default());
    if tokens < 8 {
        return crate::wide::wide(Fill(acts, numbers));
    }
    let piece = count.div_ceil(rayon::current_num_threads()).max(1);
    acts.par_chunks_mut(piece)
        .zip(numbers.par_chunks(piece * A::COLUMNS))
        .for_each(|(acts, numbers)| crate::wide::wide(Fill(acts, numbers)));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    By32,
    By256,
    Plain,
}

impl Matrix {
    /// Reads weights out of a file.
    pub(crate) fn load(file: &mut Gguf, name: &str, rows: usize, columns: usize) -> Result<Self, Fault> {
        let (kind, bytes) = file.load(name, &[columns, rows])?;
        let blocks = match kind {
            Kind::Q4_0 => Blocks::FourCentred(arranged(&bytes, columns, Block::put)),
            Kind::Q4_1 => Blocks::Four(arranged(&bytes, columns, Block::put)),
            Kind::Q5_0 => Blocks::Eight(arranged_of(&bytes, columns, 22, Eight::put_five)),
            Kind::Q5_1 => Blocks::Five(arranged(&bytes, columns, Block::put)),
            Kind::Q8_0 => Blocks::Eight(arranged(&bytes, columns, Block::put)),
            Kind::Q4K => Blocks::FourK(arranged(&bytes, columns, Block::put)),
            Kind::Q5K => Blocks::FiveK(arranged(&bytes, columns, Block::put)),
            Kind::Q6K => Blocks::SixK(arranged(&bytes, columns, Block::put)),
            Kind::F16 => Blocks::Half(arranged(&bytes, columns, Block::put)),
            Kind::Bf16 => Blocks::Brain(arranged(&bytes, columns, Block::put)),
            Kind::F32 => Blocks::Single(arranged(&bytes, columns, Block::put)),
        };
        Ok(Self { rows, columns, blocks })
    }

    fn form(&self) -> Form {
        match &self.blocks {
            Blocks::FourCentred(_) | Blocks::Four(_) | Blocks::Five(_) | Blocks::Eight(_) => Form::By32,
            Blocks::FourK(_) | Blocks::FiveK(_) | Blocks::SixK(_) => Form::By256,
            Blocks::Half(_) | Blocks::Brain(_) | Blocks::Single(_) => Form::Plain,
        }
    }

    /// Groups of eight rows; the last one may be filled up with zeros.
    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// The weights of one row.
    pub(crate) fn row(&self, row: usize, to: &mut [f32]) {
        each!(&self.blocks, blocks => row_of(blocks, row, to));
    }

    fn multiply(&self, from: usize, acts: &Acts, sums: &mut [Sums]) {
        let groups = sums.len() / acts.tokens.max(1);
        match &self.blocks {
            Blocks::FourCentred(blocks) => part(blocks, self.columns, from, groups, &acts.by_32, sums),
            Blocks::Four(blocks) => part(blocks, self.columns, from, groups, &acts.by_32, sums),
            Blocks::Five(blocks) => part(blocks, self.columns, from, groups, &acts.by_32, sums),
            Blocks::Eight(blocks) => part(blocks, self.columns, from, groups, &acts.by_32, sums),
            Blocks::FourK(blocks) => part(blocks, self.columns, from, groups, &acts.by_256, sums),
            Blocks::FiveK(blocks) => part(blocks, self.columns, from, groups, &acts.by_256, sums),
            Blocks::SixK(blocks) => part(blocks, self.columns, from, groups, &acts.by_256, sums),
            Blocks::Half(blocks) => part(blocks, self.columns, from, groups, &acts.plain, sums),
            Blocks::Brain(blocks) => part(blocks, self.columns, from, groups, &acts.plain, sums),
            Blocks::Single(blocks) => part(blocks, self.columns, from, groups, &acts.plain, sums),
        }
    }
}

fn part<B: crate::dot::Dot>(
    blocks: &[B],
    columns: usize,
    from: usize,
    groups: usize,
    acts: &[B::Act],
    sums: &mut [Sums],
) {
    let per_row = columns / B::COLUMNS;
    products(&blocks[from * per_row..(from + groups) * per_row], acts, per_row, sums);
}

fn row_of<B: Block>(blocks: &[B], row: usize, to: &mut [f32]) {
    let per_row = to.len() / B::COLUMNS;
    let group = &blocks[row / ROWS * per_row..];
    for (block, to) in group.iter().zip(to.chunks_exact_mut(B::COLUMNS)) {
        block.row(row % ROWS, to);
    }
}

fn arranged<B: Block>(bytes: &[u8], columns: usize, put: impl Fn(&mut B, usize, &[u8]) + Sync) -> Vec<B> {
    arranged_of(bytes, columns, B::STORED, put)
}

/// Puts rows side by side. `stored` is the length of one row's part of a block in the file.
fn arranged_of<B: Block>(
    bytes: &[u8],
    columns: usize,
    stored: usize,
    put: impl Fn(&mut B, usize, &[u8]) + Sync,
) -> Vec<B> {
    let per_row = columns / B::COLUMNS;
    let row_bytes = per_row * stored;
    let mut blocks = vec![B::empty(); bytes.len().div_ceil(row_bytes * ROWS) * per_row];
    blocks.par_chunks_mut(per_row).zip(bytes.par_chunks(row_bytes * ROWS)).for_each(|(blocks, rows)| {
        for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
            for (block, bytes) in blocks.iter_mut().zip(bytes.chunks_exact(stored)) {
                put(block, row, bytes);
            }
        }
    });
    blocks
}

/// Multiplies all tokens with several matrices at once. Of each matrix, group after group, the sums of eight rows for
/// every token come to lie in `sums`.
pub(crate) fn multiply(matrices: &[&Matrix], acts: &Acts, sums: &mut Vec<Sums>) {
    let groups: usize = matrices.iter().map(|matrix| matrix.groups()).sum();
    sums.resize(groups * acts.tokens, [0.0; ROWS]);
    let threads = rayon::current_num_threads();
    // Pieces small enough that a thread that is held up elsewhere does not hold up all of it.
    let piece = if threads == 1 { groups } else { groups.div_ceil(threads * 4).max(4) };
    let mut tasks = Vec::with_capacity(threads * 4 + matrices.len());
    let mut rest = sums.as_mut_slice();
    for matrix in matrices {
        let mut from = 0;
        while from < matrix.groups() {
            let count = piece.min(matrix.groups() - from);
            let (sums, behind) = rest.split_at_mut(count * acts.tokens);
            tasks.push((*matrix, from, sums));
            rest = behind;
            from += count;
        }
    }
    tasks.into_par_iter().with_max_len(1).for_each(|(matrix, from, sums)| matrix.multiply(from, acts, sums));
}
