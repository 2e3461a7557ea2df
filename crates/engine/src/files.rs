//! Files of the user that may never answer, as one on a network folder that went away. They are looked at beside the async
//! threads and for a limited time; what comes later is dropped, and who is stuck holds nobody else up.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use config::ConfigError;
use tokio::sync::Semaphore;

/// How long a file may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many looks may be under way, stuck ones among them.
const PLACES: usize = 16;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Files {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)), patience: PATIENCE }
    }
}

/// There was no answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it did not answer within {} s; it may be on a network folder that is not there", .0.as_secs())]
pub(crate) struct Silent(Duration);

impl Files {
    /// What `look` finds.
    pub(crate) async fn ask<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> Result<T, Silent> {
        let places = Arc::clone(&self.places);
        let asked = async move {
            let place = places.acquire_owned().await.ok()?;
            let job = tokio::task::spawn_blocking(move || {
                let found = look();
                drop(place);
                found
            });
            job.await.ok()
        };
        tokio::time::timeout(self.patience, asked).await.ok().flatten().ok_or(Silent(self.patience))
    }

    /// What `look` finds about the config file at `path`.
    pub(crate) async fn config<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&Path) -> Result<T, ConfigError> + Send + 'static,
    ) -> Result<T, ConfigError> {
        let owned = path.to_owned();
        match self.ask(move || look(&owned)).await {
            Ok(found) => found,
            Err(silent) => Err(unreadable(path, silent)),
        }
    }
}

/// As [`Files::config`], for a command that has nothing else to do meanwhile.
pub(crate) fn config_now<T: Send + 'static>(
    path: &Path,
    look: impl FnOnce(&Path) -> Result<T, ConfigError> + Send + 'static,
) -> Result<T, ConfigError> {
    let owned = path.to_owned();
    let (found, answer) = mpsc::sync_channel(1);
    let asked = std::thread::Builder::new().name("config".to_owned()).spawn(move || found.send(look(&owned)));
    asked.map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
    answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(unreadable(path, Silent(PATIENCE))))
}

/// The silence of a config file as its error.
pub(crate) fn unreadable(path: &Path, silent: Silent) -> ConfigError {
    let source = std::io::Error::new(std::io::ErrorKind::TimedOut, silent);
    ConfigError::Unreadable { file: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_stuck_is_left_behind_and_holds_nobody_up() {
        let files = Files { patience: Duration::from_millis(200), ..Files::default() };
        let (free, stuck) = mpsc::channel::<()>();
        let silent = files.ask(move || stuck.recv()).await;
        assert_eq!(silent.unwrap_err(), Silent(Duration::from_millis(200)));
        assert_eq!(files.ask(|| 7).await, Ok(7));
        assert_eq!(files.places.available_permits(), PLACES - 1);
        let path = Path::new("config.yaml");
        let error = files.config(path, |_| Err::<(), _>(ConfigError::NoHome)).await.unwrap_err();
        assert!(matches!(error, ConfigError::NoHome));
        assert!(unreadable(path, Silent(PATIENCE)).to_string().contains("did not answer within 5 s"));
        drop(free);
        while files.places.available_permits() < PLACES {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn no_more_are_stuck_than_there_are_places() {
        let files = Files { places: Arc::new(Semaphore::new(1)), patience: Duration::from_millis(100) };
        let (free, stuck) = mpsc::channel::<()>();
        assert!(files.ask(move || stuck.recv()).await.is_err());
        assert!(files.ask(|| ()).await.is_err());
        drop(free);
        while files.ask(|| ()).await.is_err() {}
    }
}
