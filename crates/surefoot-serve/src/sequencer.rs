//! SEQUENCER: one thread per loop that alone draws, numbers, commits and swaps policies, and one that learns.
//!
//! Callers queue what they ask, and wait. The thread takes everything that is queued, makes one step of the
//! [engine](crate::engine) of it, and answers after the commit: what is asked during one flush of the disk shares the next. If
//! too much is queued, an ask is refused before anything is drawn for it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use surefoot::{Fingerprint, LinearGaussian};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot};

use crate::clock::Clock;
use crate::config::Rules;
use crate::engine::{Answer, Ask, Engine, Ready, Refusal, Status};
use crate::error::{Error, Result};
use crate::learning::{self, Learning};
use crate::metrics::Metrics;
use crate::policies::Policies;
use crate::request::Usual;
use crate::store::{Reader, Storage};

/// The largest number of decisions and rewards that may wait.
const MOST_QUEUED: usize = 8192;
/// The largest number of decisions and rewards in one commit.
const MOST_TOGETHER: usize = 1024;
/// How often a loop looks at the clock without being asked anything.
const TICK: Duration = Duration::from_millis(50);
/// How soon the learner tries again what the store has refused.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it does, before an operator must look at it.
const TRIES: u32 = 30;
/// The largest number of events that a slow reader may be behind.
const EVENTS: usize = 256;

/// Something that happened in a loop.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A round ended.
    RoundClosed {
        /// The round.
        round: u64,
    },
    /// A round is being learned from.
    LearningStarted {
        /// The round.
        round: u64,
    },
    /// A round was learned from.
    RoundLearned {
        /// The round.
        round: u64,
        /// The policy to deploy next.
        next_policy: Option<Fingerprint>,
        /// The head of the ledger.
        ledger_head: Fingerprint,
    },
    /// A round could not be learned from.
    LearningFailed {
        /// Why.
        reason: String,
    },
    /// Records that are too old could not be erased; it is tried again.
    RetentionFailed {
        /// Why.
        reason: String,
    },
    /// Another policy decides.
    PolicyDeployed {
        /// The policy.
        policy: Option<Fingerprint>,
        /// The round that it collects.
        round: u64,
    },
}

/// What an ask is answered with: the answer, and the head of the ledger at that time.
pub(crate) type Reply = (Answer, Fingerprint);

#[derive(Debug)]
enum Message {
    /// What the learner asks has no caller.
    Ask(Ask, Option<Caller>),
    Stop,
}

/// Who waits for an answer.
#[derive(Debug)]
struct Caller {
    reply: oneshot::Sender<Reply>,
    /// Where it waits, if it is a task.
    runtime: Option<Handle>,
}

/// Answers callers, who may have gone.
fn answer(mut answered: Vec<(Caller, Reply)>) {
    let runtime = answered.iter_mut().find_map(|(caller, _)| caller.runtime.take());
    let send = move || answered.into_iter().for_each(|(caller, reply)| drop(caller.reply.send(reply)));
    match runtime {
        // One of the threads on which tasks wait tells all of them: waking these threads once per task takes longer.
        Some(runtime) => drop(runtime.spawn(async move { send() })),
        None => send(),
    }
}

/// A running loop.
#[derive(Debug)]
pub struct Loop {
    name: String,
    rules: Arc<Rules>,
    usual: Usual,
    shared: Arc<Shared>,
    policies: Policies,
    queue: Sender<Message>,
    reader: Mutex<Box<dyn Reader>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads of a loop and its callers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) status: RwLock<Status>,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) metrics: Metrics,
    queued: AtomicUsize,
}

impl Loop {
    /// Opens a loop in a folder, which holds everything that it stores, and starts its threads.
    pub fn open(
        folder: &Path,
        name: &str,
        rules: Rules,
        first: LinearGaussian,
        clock: Arc<dyn Clock>,
        learning_threads: usize,
    ) -> Result<Self> {
        Self::open_in(&Storage::Folder, folder, name, rules, first, clock, learning_threads)
    }

    /// Opens a loop that is stored elsewhere. The folder then holds the policies, for this server alone.
    pub fn open_in(
        storage: &Storage,
        folder: &Path,
        name: &str,
        rules: Rules,
        first: LinearGaussian,
        clock: Arc<dyn Clock>,
        learning_threads: usize,
    ) -> Result<Self> {
        let system = |reason| Error::System { place: folder.display().to_string(), reason };
        std::fs::create_dir_all(folder).map_err(system)?;
        let lock = locked(folder)?;
        let policies = Policies::open(&folder.join("policies"))?;
        let rules = Arc::new(rules);
        policies.write(&first, &rules.inputs())?;
        let store = storage.open(folder, name)?;
        let (found, shared) = (policies.clone(), store.reader()?);
        shared.share(policies.folder())?;
        let opening = rules.session(&format!("loop {name}"), first.clone())?;
        let find = Box::new(move |policy| {
            if !found.path(policy).is_file() {
                shared.fetch(found.folder())?;
            }
            found.prepared(policy)
        });
        let engine = Engine::open(name, Arc::clone(&rules), opening.ledger(), store, find)?;
        let learning = Learning::new(name, Arc::clone(&rules), first, policies.clone(), engine.reader()?);
        let reader = Mutex::new(engine.reader()?);
        let (queue, asked) = mpsc::channel();
        let (ready, to_learn) = mpsc::channel();
        let shared = Arc::new(Shared {
            status: RwLock::new(engine.status()),
            events: broadcast::channel(EVENTS).0,
            metrics: Metrics::default(),
            queued: AtomicUsize::new(0),
        });
        let sequencer = {
            let shared = Arc::clone(&shared);
            let work = move || {
                let _lock = lock;
                let decides = engine.status().policy;
                Sequencer { engine, shared, clock, asked, ready, decides, unsaved: None }.run();
            };
            spawn(format!("decide-{name}"), work).map_err(system)?
        };
        let learner = {
            let (queue, shared) = (queue.clone(), Arc::clone(&shared));
            let work = move || learn(learning, to_learn, &queue, &shared, learning_threads);
            spawn(format!("learn-{name}"), work).map_err(system)?
        };
        let threads = Mutex::new(vec![sequencer, learner]);
        let usual = Usual::new(&rules);
        Ok(Loop { name: name.into(), rules, usual, shared, policies, queue, reader, threads })
    }

    /// The name of the loop.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rules.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Parses the usual requests for decisions.
    pub(crate) fn usual(&self) -> &Usual {
        &self.usual
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.shared.status.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What happens in it from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The folder of the loop.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.policies.folder().parent()
    }

    /// Reads its store.
    pub fn read<T>(&self, read: impl FnOnce(&dyn Reader) -> Result<T>) -> Result<T> {
        read(self.reader.lock().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Asks something, and waits for the answer.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Reply, Refusal> {
        self.queue(ask, Some(Handle::current()))?.await.map_err(|_| stopped())
    }

    /// Asks something, and blocks the thread until the answer comes.
    pub fn ask_blocking(&self, ask: Ask) -> Result<Answer, Refusal> {
        self.queue(ask, None)?.blocking_recv().map(|(answer, _)| answer).map_err(|_| stopped())
    }

    fn queue(&self, ask: Ask, runtime: Option<Handle>) -> Result<oneshot::Receiver<Reply>, Refusal> {
        let n = ask.len();
        let before = self.shared.queued.fetch_add(n, Ordering::SeqCst);
        if before + n > MOST_QUEUED {
            self.shared.queued.fetch_sub(n, Ordering::SeqCst);
            self.shared.metrics.refused.add(1);
            return Err(Refusal::overloaded());
        }
        let (reply, answer) = oneshot::channel();
        match self.queue.send(Message::Ask(ask, Some(Caller { reply, runtime }))) {
            Ok(()) => Ok(answer),
            Err(_) => Err(stopped()),
        }
    }

    /// Ends the threads after what is queued was answered. What is being learned is given up, and learned again after the
    /// next start.
    pub fn stop(&self) {
        // If nobody takes it, the thread has ended.
        let _ = self.queue.send(Message::Stop);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sequencer) = (!threads.is_empty()).then(|| threads.remove(0)) {
            let _ = sequencer.join();
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes sure that no other process has the loop open: two sequencers would number decisions twice.
fn locked(folder: &Path) -> Result<std::fs::File> {
    let path = folder.join("lock");
    let system = |reason| Error::System { place: path.display().to_string(), reason };
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(system)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Error::store(folder, "opened", "another process has this loop open"))
        }
        Err(std::fs::TryLockError::Error(reason)) => Err(system(reason)),
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(work)
}

fn stopped() -> Refusal {
    Refusal { status: 503, kind: "stopped", detail: "the loop has stopped".into() }
}

/// The work of the thread that decides.
struct Sequencer {
    engine: Engine,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    asked: Receiver<Message>,
    ready: Sender<Ready>,
    /// The policy that took the newest decision.
    decides: Option<Fingerprint>,
    /// What was learned and could not be stored, and when that was tried.
    unsaved: Option<(Instant, Ask)>,
}

impl Sequencer {
    fn run(mut self) {
        let mut go = true;
        while go {
            let (mut asks, mut replies, mut n) = (Vec::new(), Vec::new(), 0);
            let mut next = self.asked.recv_timeout(TICK).ok();
            while let Some(message) = next {
                let Message::Ask(ask, reply) = message else {
                    go = false;
                    break;
                };
                // What the learner sends was never counted.
                n += if reply.is_some() { ask.len() } else { 0 };
                asks.push(ask);
                replies.push(reply);
                next = if n < MOST_TOGETHER { self.asked.try_recv().ok() } else { None };
            }
            self.step(&asks, replies, n);
            self.retain();
            // Alone: if it fails again, nobody else should.
            if let Some((_, ask)) = self.unsaved.take_if(|(tried, _)| tried.elapsed() >= AGAIN) {
                self.step(&[ask], vec![None], 0);
            }
        }
    }

    fn step(&mut self, asks: &[Ask], replies: Vec<Option<Caller>>, n: usize) {
        let before = self.engine.status();
        let answers = self.engine.step(asks, self.clock.now());
        self.shared.metrics.count(&answers);
        let ready = self.engine.take_ready();
        let (status, head) = (self.engine.status(), self.engine.head());
        if status != before {
            self.tell(&before, &status, asks);
            *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = status;
        }
        let mut answered = Vec::with_capacity(asks.len());
        for ((ask, reply), answer) in asks.iter().zip(replies).zip(answers) {
            match (reply, answer) {
                (Some(caller), answer) => answered.push((caller, (answer, head))),
                (None, Answer::Done(Err(_))) => self.unsaved = Some((Instant::now(), ask.clone())),
                (None, _) => {}
            }
        }
        answer(answered);
        self.shared.queued.fetch_sub(n, Ordering::SeqCst);
        if let Some(ready) = ready {
            self.send(Event::LearningStarted { round: ready.round });
            // Without a learner there is nobody left to tell.
            let _ = self.ready.send(ready);
        }
    }

    /// Erases what is too old. Nobody waits for it.
    fn retain(&mut self) {
        let head = self.engine.head();
        if let Err(reason) = self.engine.retain(self.clock.now()) {
            self.send(Event::RetentionFailed { reason: reason.to_string() });
        }
        if self.engine.head() != head {
            *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = self.engine.status();
        }
    }

    /// Tells what changed between two steps.
    fn tell(&mut self, before: &Status, after: &Status, asks: &[Ask]) {
        for round in before.round..after.round {
            self.send(Event::RoundClosed { round });
        }
        if after.round_decisions > 0 && after.policy != self.decides {
            self.decides = after.policy;
            self.send(Event::PolicyDeployed { policy: after.policy, round: after.round });
        }
        if before.failed != after.failed
            && let Some(reason) = &after.failed
        {
            self.send(Event::LearningFailed { reason: reason.clone() });
        }
        for ask in asks {
            if let Ask::Learned(learned) = ask
                && before.ledger_head != after.ledger_head
            {
                let (next_policy, ledger_head) = (after.next_policy, after.ledger_head);
                self.send(Event::RoundLearned { round: learned.round, next_policy, ledger_head });
            }
        }
    }

    /// Tells whoever listens.
    fn send(&self, event: Event) {
        let _ = self.shared.events.send(event);
    }
}

/// The work of the thread that learns.
fn learn(mut learning: Learning, ready: Receiver<Ready>, queue: &Sender<Message>, shared: &Shared, threads: usize) {
    let work = move || {
        while let Ok(round) = ready.recv() {
            let began = Instant::now();
            let mut done = learning.learn(&round);
            for _ in 0..TRIES {
                if !matches!(done, Err(Error::Store { .. })) {
                    break;
                }
                thread::sleep(AGAIN);
                done = learning.learn(&round);
            }
            let ask = match done {
                Ok(learned) => Ask::Learned(Box::new(learned)),
                Err(error) => Ask::LearningFailed { round: round.round, reason: error.to_string() },
            };
            shared.metrics.learned(began.elapsed());
            if queue.send(Message::Ask(ask, None)).is_err() {
                return;
            }
        }
    };
    if let Err(reason) = learning::in_background(threads, work) {
        let _ = queue.send(Message::Ask(Ask::LearningFailed { round: 0, reason }, None));
    }
}
