//! What every command works with: the output, the home, the environment and the way to the control API.

use std::path::{Path, PathBuf};

use config::Home;
use engine::client::Client;
use engine::lock;

use crate::exit::{Exit, Fail};
use crate::out::Out;

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
        let cold = engine::Cold::open(self.home.clone(), self.config.clone());
        Ok(Client::inside(cold.router()))
    }

    /// The control API of the running service only.
    pub(crate) async fn running(&self) -> Result<Client, Fail> {
        self.service().await.ok_or_else(Fail::not_running)
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

    /// Now, in the person's own time zone.
    pub(crate) fn now() -> jiff::Zoned {
        jiff::Zoned::now()
    }
}
