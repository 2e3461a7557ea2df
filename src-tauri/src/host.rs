//! The service behind the tray: an engine in this process, or a service that already runs in this home and is only
//! attached to. Orders come in from the menu, the window and the signals; what runs goes out as a [`View`] and as the
//! [`Client`] that reaches it. While nothing runs, the client opens the same files cold.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::Home;
use engine::client::Client;
use engine::lock::{self, LockError};
use engine::logs::LogControl;
use engine::{Cold, End, Engine, StartError, StartOptions};
use http::Method;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// How often the home's lock is looked at while the service is another process, or none runs.
const LOOK: Duration = Duration::from_secs(1);
/// How long a service that holds the home may take until its control socket answers.
const STARTING: Duration = Duration::from_secs(3);
/// How often it is tried.
const PAUSE: Duration = Duration::from_millis(50);
/// How long an attached service may take to end.
const ENDING: Duration = Duration::from_secs(15);

/// What is asked of the service.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve agents.
    Start,
    /// Stop serving them.
    Stop,
    /// The machine woke up: see whether agents are still served.
    Check,
    /// End everything of this process; the answer comes when it has ended. An attached service goes on.
    Quit(oneshot::Sender<()>),
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Nothing, and why if that was not asked for.
    Stopped {
        /// One sentence.
        problem: Option<String>,
    },
    /// It begins.
    Starting,
    /// The engine of this process.
    Own,
    /// Another process, by its number where it said it.
    Attached {
        /// Process id.
        pid: Option<u32>,
    },
    /// It ends.
    Stopping,
}

impl View {
    /// Agents are served.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::Own | Self::Attached { .. })
    }
}

/// The handle to the service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Host {
    orders: mpsc::UnboundedSender<Order>,
    view: watch::Receiver<View>,
    client: Arc<ArcSwap<Client>>,
}

impl Host {
    /// The handle, and the work behind it, which ends after [`Order::Quit`]. The work begins by starting the service.
    pub(crate) fn new(home: Home, log: LogControl) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (orders, incoming) = mpsc::unbounded_channel();
        let (show, view) = watch::channel(View::Starting);
        let client = Arc::new(ArcSwap::from_pointee(cold(&home)));
        let keeper = Keeper { home, log, orders: incoming, show, client: Arc::clone(&client) };
        (Self { orders, view, client }, keeper.work())
    }

    /// Hands an order over.
    pub(crate) fn order(&self, order: Order) {
        // Nobody listens any more only while the program ends.
        let _ = self.orders.send(order);
    }

    /// Ends the engine of this process, if there is one. At most ten seconds.
    pub(crate) async fn quit(&self) {
        let (done, ended) = oneshot::channel();
        self.order(Order::Quit(done));
        let _ = ended.await;
    }

    /// What runs, to look at and to wait on.
    pub(crate) fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The way to the control API as it is now.
    pub(crate) fn client(&self) -> Client {
        Client::clone(&self.client.load())
    }
}

struct Keeper {
    home: Home,
    log: LogControl,
    orders: mpsc::UnboundedReceiver<Order>,
    show: watch::Sender<View>,
    client: Arc<ArcSwap<Client>>,
}

/// What comes next.
enum Next {
    Start,
    Serve(Box<Engine>),
    Attach,
    Rest(Option<String>),
    End(Option<oneshot::Sender<()>>),
}

impl Keeper {
    async fn work(mut self) {
        let mut next = Next::Start;
        loop {
            next = match next {
                Next::Start => Box::pin(self.start()).await,
                Next::Serve(engine) => Box::pin(self.serve(*engine)).await,
                Next::Attach => self.attach().await,
                Next::Rest(problem) => self.rest(problem).await,
                Next::End(done) => {
                    self.show(View::Stopped { problem: None });
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                    return;
                }
            };
        }
    }

    fn show(&self, view: View) {
        self.show.send_replace(view);
    }

    fn reach(&self, client: Client) {
        self.client.store(Arc::new(client));
    }

    async fn start(&mut self) -> Next {
        self.show(View::Starting);
        let options = StartOptions { log: self.log.clone(), ..StartOptions::new(self.home.clone()) };
        match Engine::start(options).await {
            Ok(engine) => Next::Serve(Box::new(engine)),
            Err(StartError::Lock(LockError::Held(_))) => Next::Attach,
            Err(error) => {
                tracing::error!("not started: {error}");
                Next::Rest(Some(sentence(&error.to_string())))
            }
        }
    }

    async fn serve(&mut self, engine: Engine) -> Next {
        self.reach(Client::inside(engine.router()));
        self.show(View::Own);
        let next = loop {
            tokio::select! {
                end = engine.ended() => break match end {
                    End::Stop => Next::Rest(None),
                    End::Restart => Next::Start,
                },
                order = self.orders.recv() => match order {
                    Some(Order::Start) => {}
                    Some(Order::Stop) => break Next::Rest(None),
                    Some(Order::Check) => if !answers(&engine).await {
                        tracing::warn!("the agent port no longer answers; starting again");
                        break Next::Start;
                    },
                    Some(Order::Quit(done)) => break Next::End(Some(done)),
                    None => break Next::End(None),
                },
            }
        };
        // It tells of its own end while it lasts; afterwards its router would hold on to the journal.
        self.show(View::Stopping);
        Box::pin(engine.stop()).await;
        self.reach(cold(&self.home));
        next
    }

    async fn attach(&mut self) -> Next {
        let lock_path = self.home.lock_path();
        let begun = Instant::now();
        let client = loop {
            if let Some(client) = Client::socket(&self.home.socket_path()).await {
                break client;
            }
            match lock::holder(&lock_path) {
                None => return Next::Start,
                Some(holder) if begun.elapsed() > STARTING => return Next::Rest(Some(unreachable(holder.as_ref()))),
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let pid = || lock::holder(&lock_path).flatten().map(|holder| holder.pid);
        tracing::info!(pid = pid(), "a service already runs here; attached to it");
        self.reach(client.clone());
        self.show(View::Attached { pid: pid() });
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {
                    if lock::holder(&lock_path).is_none() {
                        return Next::Rest(None);
                    }
                    // A restarted service is another process with the same socket.
                    let now = View::Attached { pid: pid() };
                    if now != (View::Attached { pid: None }) {
                        self.show.send_if_modified(|shown| now != std::mem::replace(shown, now.clone()));
                    }
                }
                order = self.orders.recv() => match order {
                    Some(Order::Start | Order::Check) => {}
                    Some(Order::Stop) => {
                        self.show(View::Stopping);
                        let _ = client.call::<(), serde_json::Value>(Method::POST, "/api/v1/stop", None).await;
                        if !freed(&lock_path).await {
                            return Next::Rest(Some(unreachable(lock::holder(&lock_path).flatten().as_ref())));
                        }
                        return Next::Rest(None);
                    }
                    Some(Order::Quit(done)) => return Next::End(Some(done)),
                    None => return Next::End(None),
                },
            }
        }
    }

    async fn rest(&mut self, problem: Option<String>) -> Next {
        self.reach(cold(&self.home));
        self.show(View::Stopped { problem });
        let lock_path = self.home.lock_path();
        let silent = lock::holder(&lock_path).is_some();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {
                    // Somebody started a service. One that held the home all the time and was silent is left alone.
                    let answers = async || Client::socket(&self.home.socket_path()).await.is_some();
                    if lock::holder(&lock_path).is_some() && (!silent || answers().await) {
                        return Next::Attach;
                    }
                }
                order = self.orders.recv() => match order {
                    Some(Order::Start) => return Next::Start,
                    Some(Order::Stop | Order::Check) => {}
                    Some(Order::Quit(done)) => return Next::End(Some(done)),
                    None => return Next::End(None),
                },
            }
        }
    }
}

fn cold(home: &Home) -> Client {
    Client::inside(Cold::open(home.clone(), None).router())
}

/// Whether the engine's agent port answers.
async fn answers(engine: &Engine) -> bool {
    let url = engine.status().base_url;
    let addr = url.as_deref().and_then(|url| url.strip_prefix("http://")?.strip_suffix("/v1"));
    match addr.and_then(|addr| addr.parse::<SocketAddr>().ok()) {
        Some(addr) => engine::health::answers(addr).await,
        None => true,
    }
}

/// True once nobody holds the home.
async fn freed(lock_path: &Path) -> bool {
    let begun = Instant::now();
    while lock::holder(lock_path).is_some() {
        if begun.elapsed() > ENDING {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}

fn unreachable(holder: Option<&lock::Holder>) -> String {
    let who = holder.map_or("A process".to_owned(), |holder| format!("Process {}", holder.pid));
    format!("{who} holds this home, but its control socket does not answer: it is starting or ending, or it hangs.")
}

/// The text with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    chars.next().map(|first| format!("{}{}.", first.to_uppercase(), chars.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::api::{ServiceState, Status};

    struct Bench {
        host: Host,
        work: tokio::task::JoinHandle<()>,
        home: Home,
        _dir: tempfile::TempDir,
    }

    fn home(config: &str) -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), config).unwrap();
        let home = Home::at(dir.path());
        (dir, home)
    }

    impl Bench {
        fn on(config: &str) -> Self {
            let (dir, home) = home(config);
            let (host, work) = Host::new(home.clone(), LogControl::default());
            #[expect(clippy::disallowed_methods, reason = "the test waits for it itself")]
            let work = tokio::spawn(work);
            Self { host, work, home, _dir: dir }
        }

        async fn until(&self, wanted: impl FnMut(&View) -> bool) -> View {
            self.host.view().wait_for(wanted).await.unwrap().clone()
        }

        async fn status(&self) -> Status {
            self.host.client().get("/api/v1/status").await.unwrap()
        }

        async fn end(self) {
            self.host.quit().await;
            self.work.await.unwrap();
        }
    }

    const ANY_PORT: &str = "proxy:\n  port: 0\n";

    #[tokio::test]
    async fn it_starts_stops_and_starts_again_and_the_api_answers_all_the_time() {
        let bench = Bench::on(ANY_PORT);
        bench.until(|view| *view == View::Own).await;
        assert_eq!(bench.status().await.state, ServiceState::FirstRun);
        bench.host.order(Order::Stop);
        assert_eq!(bench.until(|view| matches!(view, View::Stopped { .. })).await, View::Stopped { problem: None });
        assert_eq!(bench.status().await.state, ServiceState::Stopped);
        bench.host.order(Order::Start);
        bench.until(|view| *view == View::Own).await;
        bench.host.order(Order::Check);
        let first = bench.status().await;
        assert_eq!(first.state, ServiceState::FirstRun);
        let home = bench.home.clone();
        bench.end().await;
        assert_eq!(lock::holder(&home.lock_path()), None);
    }

    #[tokio::test]
    async fn a_restart_asked_of_the_api_is_carried_out() {
        let bench = Bench::on(ANY_PORT);
        bench.until(|view| *view == View::Own).await;
        let mut seen = bench.host.view();
        seen.mark_unchanged();
        let _: serde_json::Value =
            bench.host.client().call::<(), _>(Method::POST, "/api/v1/restart", None).await.unwrap();
        seen.wait_for(|view| *view == View::Stopping).await.unwrap();
        seen.wait_for(|view| *view == View::Own).await.unwrap();
        bench.end().await;
    }

    #[tokio::test]
    async fn a_service_that_already_runs_is_attached_to_and_outlives_us() {
        let (_dir, home) = home(ANY_PORT);
        let engine = Engine::start(StartOptions::new(home.clone())).await.unwrap();
        let (host, work) = Host::new(home.clone(), LogControl::default());
        #[expect(clippy::disallowed_methods, reason = "the test waits for it itself")]
        let work = tokio::spawn(work);
        let pid = Some(std::process::id());
        host.view().wait_for(|view| *view == View::Attached { pid }).await.unwrap();
        let status: Status = host.client().get("/api/v1/status").await.unwrap();
        assert_eq!(status.base_url, engine.status().base_url);
        host.quit().await;
        work.await.unwrap();
        assert!(lock::holder(&home.lock_path()).is_some());
        engine.stop().await;
    }

    #[tokio::test]
    async fn a_service_that_begins_elsewhere_is_attached_to_and_its_end_is_seen() {
        let bench = Bench::on(ANY_PORT);
        bench.until(|view| *view == View::Own).await;
        bench.host.order(Order::Stop);
        bench.until(|view| matches!(view, View::Stopped { .. })).await;
        let engine = Engine::start(StartOptions::new(bench.home.clone())).await.unwrap();
        bench.until(|view| matches!(view, View::Attached { .. })).await;
        engine.stop().await;
        bench.until(|view| *view == View::Stopped { problem: None }).await;
        bench.end().await;
    }

    #[tokio::test]
    async fn stop_ends_an_attached_service() {
        let (_dir, home) = home(ANY_PORT);
        let engine = Engine::start(StartOptions::new(home.clone())).await.unwrap();
        let (host, work) = Host::new(home.clone(), LogControl::default());
        #[expect(clippy::disallowed_methods, reason = "the test waits for it itself")]
        let work = tokio::spawn(work);
        host.view().wait_for(|view| matches!(view, View::Attached { .. })).await.unwrap();
        host.order(Order::Stop);
        assert_eq!(engine.ended().await, End::Stop);
        engine.stop().await;
        host.view().wait_for(|view| *view == View::Stopped { problem: None }).await.unwrap();
        host.quit().await;
        work.await.unwrap();
    }

    #[tokio::test]
    async fn a_taken_port_is_told_and_start_tries_again() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let bench = Bench::on(&format!("proxy:\n  port: {port}\n"));
        let view = bench.until(|view| matches!(view, View::Stopped { .. })).await;
        let View::Stopped { problem: Some(problem) } = view else { panic!("no reason: {view:?}") };
        assert!(problem.starts_with(&format!("Port {port} is taken by ")), "{problem}");
        drop(taken);
        bench.host.order(Order::Start);
        bench.until(|view| *view == View::Own).await;
        bench.end().await;
    }
}
