//! The keys of training: service, judge, evolver, teacher, and when it may run.

use super::Effect::{Accepted, Later, Live};
use super::{int, num, section};
use crate::Kind::{Bool, Choice, Path, Secret as SecretKind, Text, Time, Url};
use crate::{Backend, LossFn, Review, Secret, TimeOfDay};

const TRAINING: &str = "training is not in this release";
const WINDOWS: &str = "training windows come with training";
/// Where the judge is looked for if nothing is said: nobody is asked there without a key of the judge's own.
pub(crate) const DEFAULT_JUDGE: &str = "https://api.openai.com/v1";
const CALENDAR: &str = "calendars are linked in a later release";

section! {
    /// Training: the service, the judge, the evolver.
    Rl [.rl] "rl." rl_rows {
        /// Whether conversations train the model; mode rl and auto say so by themselves.
        enabled: bool = false, Bool, Later(TRAINING);
        /// The training service; auto tells it from the credentials and the address.
        backend: Backend = Backend::Auto, Choice { of: Backend::WORDS }, Later(TRAINING);
        /// The base model that is trained. Empty: llm.model_id.
        model: String = String::new(), Text, Later(TRAINING);
        /// The key for the training service.
        api_key: Secret = Secret::default(), SecretKind, Later(TRAINING), also "rl.tinker_api_key";
        /// Address of the training service. Empty: the service's own.
        base_url: String = String::new(), Url, Later(TRAINING), also "rl.tinker_base_url";
        /// Where the tokenizer is, if not on the hub.
        tokenizer_path: String = String::new(), Path, Later(TRAINING);
        /// Address of the judge's API (OpenAI form). Empty, or OpenAI's own without a key in rl.prm_api_key: no judge.
        prm_url: String = DEFAULT_JUDGE.to_owned(), Url, Live;
        /// The model that judges.
        prm_model: String = "gpt-5.2".to_owned(), Text, Live;
        /// The key for the judge. Empty: llm.api_key, if it is the same server.
        prm_api_key: Secret = Secret::default(), SecretKind, Live;
        /// Whose API the judge is.
        prm_provider: String = "openai".to_owned(), Text, Live;
        /// How many votes one answer gets; fewer where the others could not turn them.
        prm_m: u32 = 3, int(1, 100), Live;
        /// Temperature of a vote.
        prm_temperature: f64 = 0.6, num(0.0, 2.0), Live;
        /// Longest vote in tokens.
        prm_max_new_tokens: u32 = 1_024, int(1, 1_000_000), Live;
        /// Rank of the LoRA adapter.
        lora_rank: u32 = 32, int(1, 4_096), Later(TRAINING);
        /// How many samples make one step.
        batch_size: u32 = 4, int(1, 100_000), Later(TRAINING);
        /// How far one step goes.
        learning_rate: f64 = 1e-4, num(0.0, 1.0), Later(TRAINING);
        /// After how many steps training ends; 0 = never.
        max_steps: u32 = 1_000, int(0, i64::MAX), Later(TRAINING);
        /// The loss of a step.
        loss_fn: LossFn = LossFn::ImportanceSampling, Choice { of: LossFn::WORDS }, Later(TRAINING);
        /// How long saving weights may take.
        save_weights_timeout_s: u32 = 200, int(1, 86_400), Later(TRAINING);
        /// The checkpoint to go on from.
        resume_from_ckpt: String = String::new(), Text, Later(TRAINING);
        /// Train only on `metaclaw train-step`.
        manual_train_trigger: bool = false, Bool, Later(TRAINING);
        /// Whether samples wait for a person's approval.
        review: Review = Review::Off, Choice { of: Review::WORDS }, Later(TRAINING);
        /// Address of the API that writes skills. Empty: llm.api_base.
        evolver_api_base: String = String::new(), Url, Live;
        /// The key for it. Empty: llm.api_key, if it is the same server.
        evolver_api_key: Secret = Secret::default(), SecretKind, Live;
        /// The model that writes skills. Empty: llm.model_id.
        evolver_model: String = String::new(), Text, Live;
        /// Whose API the evolver is.
        evolver_provider: String = "openai".to_owned(), Text, Live;
        /// Below which share of good turns new skills are looked for.
        skill_update_threshold: f64 = 0.4, num(0.0, 1.0), Later(TRAINING);
        /// At most so many new skills at a time.
        max_new_skills: u32 = 3, int(0, 100), Live;
        /// The chat template comes with the tokenizer.
        renderer_name: String = String::new(), Text, Accepted("the chat template comes with the tokenizer");
        /// The sampler comes with the training service.
        tinker_sampling_url: String = String::new(), Url, Accepted("the sampler comes with the training service");
    }
}

section! {
    /// On-policy distillation from a teacher.
    Opd [.opd] "opd." opd_rows {
        /// Whether a teacher guides the training.
        enabled: bool = false, Bool, Later(TRAINING);
        /// Address of the teacher (OpenAI form, /v1/completions).
        teacher_url: String = String::new(), Url, Later(TRAINING);
        /// The teacher's model.
        teacher_model: String = String::new(), Text, Later(TRAINING);
        /// The key for the teacher.
        teacher_api_key: Secret = Secret::default(), SecretKind, Later(TRAINING);
        /// Weight of the distance to the teacher.
        kl_penalty_coef: f64 = 1.0, num(0.0, f64::MAX), Later(TRAINING);
    }
}

section! {
    /// When training may run.
    Scheduler [.scheduler] "scheduler." scheduler_rows {
        /// Whether training waits for a window; mode auto says so by itself.
        enabled: bool = false, Bool, Later(WINDOWS);
        /// Start of the sleeping hours, local time.
        sleep_start: TimeOfDay = TimeOfDay::at(23), Time, Later(WINDOWS);
        /// End of the sleeping hours, local time.
        sleep_end: TimeOfDay = TimeOfDay::at(7), Time, Later(WINDOWS);
        /// A window opens when nobody touched the machine for so many minutes.
        idle_threshold_minutes: u32 = 30, int(1, 10_000), Later(WINDOWS);
        /// Shorter windows are not used.
        min_window_minutes: u32 = 15, int(0, 1_440), Later(WINDOWS);
    }
    with {
        /// Meetings as windows.
        calendar: Calendar;
    }
}

section! {
    /// Meetings as windows.
    Calendar [.scheduler.calendar] "scheduler.calendar." calendar_rows {
        /// Whether meetings in the calendar open a window.
        enabled: bool = false, Bool, Later(CALENDAR);
        /// The client file from Google.
        credentials_path: String = String::new(), Path, Later(CALENDAR);
        /// Where an old install kept its token.
        token_path: String = "~/.metaclaw/calendar_token.json".to_owned(), Path, Later(CALENDAR);
    }
}
