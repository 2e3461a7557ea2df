//! x
#![allow(dead_code, clippy::allow_attributes, clippy::allow_attributes_without_reason)]
mod act;
mod attend;
mod blocks;
mod dot;
mod error;
mod gguf;
mod half;
mod matrix;
mod net;
mod split;
mod vocab;
mod wide;
#[cfg(test)]
mod speed {
    fn cpu() -> f64 {
        std::fs::read_dir("/proc/self/task").unwrap().map(|t| std::fs::read_to_string(t.unwrap().path().join("schedstat")).unwrap_or_default().split(' ').next().unwrap_or("0").parse::<f64>().unwrap_or(0.0) / 1e9).sum()
    }
    #[test]
    fn speed() {
        let path = std::env::var("GGUF").unwrap();
        let threads = std::env::var("T").map_or(2, |t| t.parse().unwrap());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let t = tokio::time::Instant::now();
            let mut file = crate::gguf::Gguf::open(path.as_ref()).unwrap();
            let net = crate::net::Net::load(&mut file).unwrap();
            println!("load {:?}", t.elapsed());
            for _ in 0..2 {
            let mut cache = net.cache();
            let mut desk = crate::net::Desk::default();
            let ids: Vec<u32> = (0..547).map(|i| 1000 + (i * 7919) % 40000).collect();
            let c = cpu(); let t = tokio::time::Instant::now();
            for b in ids.chunks(crate::net::BATCH) { net.run(b, &mut cache, &mut desk, true, &|| false).unwrap(); }
            println!("prefill {:?} cpu {:.3} {:.0} tok/s", t.elapsed(), cpu() - c, 547.0 / t.elapsed().as_secs_f64());
            let c = cpu(); let t = tokio::time::Instant::now();
            for i in 0..128 { let l = net.run(&[1000 + i], &mut cache, &mut desk, true, &|| false).unwrap(); if i == 0 { println!("{:?}", &l[..5]); } }
            println!("decode cpu {:.1} tok/cpu-s; {:.1} tok/s", 128.0 / (cpu() - c), 128.0 / t.elapsed().as_secs_f64());
            }
        });
    }
}
