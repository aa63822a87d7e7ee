//! A world of articles: every request offers some of them, and they have features.

use std::ops::Range;

use rand::seq::index::sample;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{Environment, Truth, Turn, interact};
use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::features::{FeatureMap, Joint};
use crate::logs::{Eligible, Logs};
use crate::math::random::{Purpose, record_stream, stream};
use crate::policy::{LinearGaussian, Policy, Posterior, Scale};

/// Settings of an [`Articles`] world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArticlesSettings {
    /// The number of features of a user and of an article: from 1 to 1,000.
    pub features: usize,
    /// The number of articles in the catalogue: at least the candidates of a request.
    pub articles: usize,
    /// The number of candidates of a request: from 2 to 1,000.
    pub candidates: usize,
    /// After this many requests all articles are replaced by new ones; 0 for never.
    pub replaced_after: usize,
    /// How strongly the reward depends on user and article: above 0.
    pub strength: f64,
    /// The seed of the world, its requests and its rewards.
    pub seed: u64,
}

impl Default for ArticlesSettings {
    fn default() -> Self {
        ArticlesSettings { features: 8, articles: 200, candidates: 6, replaced_after: 0, strength: 1.5, seed: 0 }
    }
}

/// Users `u` and articles `f` are standard normal vectors, and the reward of an article is 1 with probability
/// `1/(1 + exp(-(b_f + strength <u, M f>/features)))`. The matrix `M` and the popularity `b_f`, which is linear in the
/// article's features, are those of the world. A request offers a random part of the catalogue, in random order.
#[derive(Debug, Clone)]
pub struct Articles {
    settings: ArticlesSettings,
    /// `M`, row-major.
    taste: Vec<f64>,
    /// `b_f = <popularity, f>`.
    popularity: Vec<f64>,
}

/// Requests with their candidates, and the expected cost of each.
struct Requests {
    users: Contexts,
    candidates: Eligible,
    costs: Vec<f64>,
}

/// The number of requests over which the truth is averaged.
const TRUTH_SIZE: usize = 4000;

/// The first generation of the catalogue that no request reaches, and the number of requests of the truth per generation.
const UNSEEN: usize = 1 << 40;
const EACH: usize = 200;

impl Articles {
    /// Draws a world.
    pub fn new(settings: ArticlesSettings) -> Result<Self> {
        let ArticlesSettings { features, articles, candidates, strength, seed, .. } = settings;
        for (name, size, least) in
            [("the number of features", features, 1), ("the number of candidates", candidates, 2)]
        {
            if !(least..=1000).contains(&size) {
                return Err(Error::setting(name, format!("from {least} to 1000"), size));
            }
        }
        if articles < candidates {
            return Err(Error::setting("the number of articles", format!("at least {candidates}"), articles));
        }
        check_setting("the strength", strength, strength > 0.0, "above 0")?;
        let mut normals = StandardNormal.sample_iter(stream(seed, Purpose::World, 0));
        let taste = normals.by_ref().take(features * features).collect();
        let popularity = normals.take(features).map(|v: f64| 0.3 * v).collect();
        Ok(Articles { settings, taste, popularity })
    }

    /// Its settings.
    pub fn settings(&self) -> &ArticlesSettings {
        &self.settings
    }

    /// The first policy, which prefers no candidate. Its joint features are those of the article, and all products with
    /// those of the user.
    pub fn first_policy(&self) -> Result<LinearGaussian> {
        let ArticlesSettings { features, candidates, .. } = self.settings;
        let joint = Joint::full(features, features, 18)?;
        let posterior = Posterior::over_candidates(vec![0.0; joint.output()], Scale::Shared(1.0))?;
        LinearGaussian::over_candidates(FeatureMap::identity(features), joint, candidates, posterior)
    }

    /// The features of an article of a generation of the catalogue.
    fn article(&self, generation: usize, article: usize) -> Vec<f64> {
        let base = stream(self.settings.seed, Purpose::World, 1);
        let number = (generation * self.settings.articles + article) as u64;
        StandardNormal.sample_iter(record_stream(&base, number)).take(self.settings.features).collect()
    }

    /// Requests of a sequence. `generation` is that of the catalogue at a request.
    fn requests(&self, sequence: u64, numbers: Range<usize>, generation: impl Fn(usize) -> usize) -> Result<Requests> {
        let ArticlesSettings { features, articles, candidates, strength, seed, .. } = self.settings;
        let base = stream(seed, Purpose::Contexts, sequence);
        let (mut users, mut rows, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        let mut offsets = vec![0];
        let mut catalogue: Option<(usize, Vec<Vec<f64>>)> = None;
        for number in numbers {
            let generation = generation(number);
            if catalogue.as_ref().is_none_or(|(known, _)| *known != generation) {
                catalogue = Some((generation, (0..articles).map(|a| self.article(generation, a)).collect()));
            }
            let (_, catalogue) = catalogue.as_ref().expect("it has just been made");
            let mut rng = record_stream(&base, number as u64);
            let user: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(features).collect();
            let wanted: Vec<f64> = (0..features)
                .map(|j| (0..features).map(|i| user[i] * self.taste[i * features + j]).sum::<f64>())
                .collect();
            for a in sample(&mut rng, articles, candidates) {
                let article = &catalogue[a];
                let product = |x: &[f64]| x.iter().zip(article).map(|(x, f)| x * f).sum::<f64>();
                let logit = product(&self.popularity) + strength * product(&wanted) / features as f64;
                costs.push(-1.0 / (1.0 + (-logit).exp()));
                rows.extend(article.iter().map(|&v| v as f32));
            }
            offsets.push(costs.len());
            users.extend(user.iter().map(|&v| v as f32));
        }
        let candidates = Eligible::candidates(offsets, Contexts::dense(rows, features)?)?;
        Ok(Requests { users: Contexts::dense(users, features)?, candidates, costs })
    }
}

impl Environment for Articles {
    fn actions(&self) -> usize {
        self.settings.candidates
    }

    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs> {
        let Requests { users, candidates, costs } = self.requests(0, turn.start..turn.start + turn.n, |i| {
            i.checked_div(self.settings.replaced_after).unwrap_or(0)
        })?;
        let k = self.settings.candidates;
        interact(policy, users, Some(candidates), turn, self.settings.seed, |i, a| costs[i * k + a])
    }

    /// From a sample of 4,000 requests. If articles are replaced, the requests have articles that no policy has seen.
    fn truth(&self, _: usize) -> Result<Truth> {
        let catalogue = |i: usize| if self.settings.replaced_after == 0 { 0 } else { UNSEEN + i / EACH };
        let Requests { users, candidates, costs } = self.requests(u64::MAX, 0..TRUTH_SIZE, catalogue)?;
        Truth::table(users, self.settings.candidates, costs)?.with_eligible(candidates)
    }
}
