//! What every command works with: the output, the home, the environment and the way to the control API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Home;
use engine::client::Client;
use engine::lock;
use tokio::time::Instant;

use crate::args::Target;
use crate::exit::{Exit, Fail};
use crate::out::Out;

/// How long a service that holds the home may take until its control socket answers.
const STARTING: Duration = Duration::from_secs(3);
/// How often it is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// Shared by all commands of one call.
pub(crate) struct Ctx {
    pub out: Out,
    pub home: Home,
    /// Set by `--config`, made absolute.
    pub config: Option<PathBuf>,
}

impl Ctx {
    pub(crate) fn new(out: Out) -> Result<Self, Fail> {
        let home = Home::from_env(|name| std::env::var(name).ok())
            .map_err(|error| Fail::new(Exit::NotConfigured, format!("{error}.")))?;
        Ok(Self { out, home, config: None })
    }

    /// Takes over `--config`.
    pub(crate) fn with_config(mut self, config: Option<&Path>) -> Result<Self, Fail> {
        if let Some(path) = config {
            let path = std::path::absolute(path)
                .map_err(|error| Fail::usage(format!("{} is no usable path: {error}.", path.display())))?;
            self.config = Some(path);
        }
        Ok(self)
    }

    /// The config file this call is about.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.home.config_path())
    }

    /// The control API: of the running service, or in this process when none runs or another config file is meant.
    pub(crate) async fn api(&self) -> Result<Client, Fail> {
        if let Some(client) = self.service().await
            && self.is_same_config()
        {
            return Ok(client);
        }
        let out = self.out.clone();
        let cold = engine::Cold::open(self.home.clone(), self.config.clone()).telling(move |text| out.warn(text));
        Ok(Client::inside(cold.router()))
    }

    /// The control API of the running service only. One that is just starting is waited for.
    pub(crate) async fn running(&self) -> Result<Client, Fail> {
        let begun = Instant::now();
        loop {
            if let Some(service) = self.service().await {
                return Ok(service);
            }
            match self.holder() {
                None => return Err(Fail::not_running()),
                Some(holder) if begun.elapsed() > STARTING => return Err(unreachable(holder.as_ref())),
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Who runs the service that `target` means; exit 3 if nobody does, or another one.
    pub(crate) fn meant(&self, target: &Target) -> Result<Option<lock::Holder>, Fail> {
        let Some(holder) = self.holder() else { return Err(Fail::not_running()) };
        let Some(holder) = holder else { return Ok(None) };
        if let Some(port) = target.port
            && holder.port != port
        {
            return Err(Fail::new(
                Exit::NotRunning,
                format!("No service of this home uses port {port}; process {} uses {}.", holder.pid, holder.port),
            ));
        }
        if let Some(config) = &self.config
            && holder.config != *config
        {
            let (ours, theirs) = (config.display(), holder.config.display());
            return Err(Fail::new(
                Exit::NotRunning,
                format!("No service of this home reads {ours}; process {} reads {theirs}.", holder.pid),
            ));
        }
        Ok(Some(holder))
    }

    async fn service(&self) -> Option<Client> {
        Client::socket(&self.home.socket_path()).await
    }

    /// Whether the running service reads the config file this call is about.
    fn is_same_config(&self) -> bool {
        let Some(ours) = &self.config else { return true };
        match self.holder() {
            Some(Some(holder)) => holder.config == *ours,
            _ => true,
        }
    }

    /// Who holds this home's lock.
    pub(crate) fn holder(&self) -> Option<Option<lock::Holder>> {
        lock::holder(&self.home.lock_path())
    }

    /// Whether somebody holds this home.
    pub(crate) fn is_held(&self) -> bool {
        self.holder().is_some()
    }

    /// Now, in the person's own time zone.
    pub(crate) fn now() -> jiff::Zoned {
        jiff::Zoned::now()
    }
}

fn unreachable(holder: Option<&lock::Holder>) -> Fail {
    let who = holder.map_or("A process".to_owned(), |holder| format!("Process {}", holder.pid));
    Fail::failed(format!(
        "{who} holds this home, but its control socket does not answer: it is starting or ending, or it hangs."
    ))
    .hint("If it stays so, end it: metaclaw stop --force")
}
