//! Policy files that callers send.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use surefoot::Policy;
use surefoot_data::{Inputs, PolicyReader};

use super::problem::Problem;
use crate::config::Rules;
use crate::engine::Refusal;
use crate::policies::Policies;

/// The content type of a single policy file.
const FILE: &str = "application/octet-stream";
/// The name that the policy file gets in the folder below.
const POLICY: &str = "policy.safetensors";

/// The files of a policy, in a folder of their own.
#[derive(Debug)]
pub(super) struct Upload {
    folder: tempfile::TempDir,
}

/// A policy file: safetensors, as `surefoot learn` writes it.
#[derive(Debug, utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it describes the body")]
pub(super) struct PolicyFile(Vec<u8>);

/// A form with the file of a policy, and with the files of features and bases that it names.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "it describes the form")]
pub(super) struct PolicyForm {
    /// The policy file.
    #[schema(value_type = String, format = Binary)]
    policy: Vec<u8>,
    /// The files that the policy names, with their names: `basis-`, `features-`, `trees-` or `softmax-` and a fingerprint.
    /// Those that the loop has already need not be sent.
    #[schema(value_type = Option<Vec<String>>)]
    file: Option<Vec<u8>>,
}

fn wrong(status: StatusCode, detail: impl Into<String>) -> Problem {
    Problem::new(status, "policy-file", detail)
}

fn system(reason: &std::io::Error) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "temporary-folder", format!("a temporary folder: {reason}"))
}

impl Upload {
    /// Reads a body: a policy file, or a form with it and the files that it names.
    pub(super) async fn read(request: Request) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let folder = tempfile::tempdir().map_err(|reason| system(&reason))?;
        let upload = Upload { folder };
        match kind.as_str() {
            FILE => {
                let body = Bytes::from_request(request, &()).await;
                let body = body.map_err(|rejection| wrong(rejection.status(), rejection.body_text()))?;
                upload.put(POLICY, &body)?;
            }
            "multipart/form-data" => {
                let form = Multipart::from_request(request, &()).await;
                upload.take(form.map_err(|rejection| wrong(rejection.status(), rejection.body_text()))?).await?;
            }
            other => {
                let detail = format!("Content-Type should be {FILE} or multipart/form-data, but is {other:?}");
                return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", detail));
            }
        }
        Ok(upload)
    }

    async fn take(&self, mut form: Multipart) -> Result<(), Problem> {
        #[expect(clippy::needless_pass_by_value, reason = "it is an argument of map_err")]
        fn broken(error: MultipartError) -> Problem {
            wrong(error.status(), error.body_text())
        }
        let mut found = false;
        while let Some(part) = form.next_field().await.map_err(broken)? {
            let (name, file) = (part.name().unwrap_or_default().to_owned(), part.file_name().map(str::to_owned));
            let bytes = part.bytes().await.map_err(broken)?;
            match (name.as_str(), file) {
                ("policy", _) if !found => {
                    self.put(POLICY, &bytes)?;
                    found = true;
                }
                ("file", Some(file)) if Policies::names(&file).is_some_and(|(kind, _)| !kind.is_empty()) => {
                    let file = file.strip_suffix(".safetensors").unwrap_or(&file);
                    self.put(&format!("{file}.safetensors"), &bytes)?;
                }
                (name, file) => {
                    let detail = format!(
                        "a part of the form should be `policy`, once, or `file` with the name of a file of features or \
                         of a basis, but is {name:?} with the name {file:?}"
                    );
                    return Err(wrong(StatusCode::UNPROCESSABLE_ENTITY, detail));
                }
            }
        }
        match found {
            true => Ok(()),
            false => Err(wrong(StatusCode::UNPROCESSABLE_ENTITY, "the form should have a part `policy`, but has none")),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Problem> {
        std::fs::write(self.folder.path().join(name), bytes).map_err(|reason| system(&reason))
    }

    /// The policy file.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(POLICY)
    }

    /// Reads the policy. What it names and was not sent is taken from the policies of the loop.
    pub(super) fn policy(&self, rules: &Rules, known: &Policies) -> Result<Arc<dyn Policy>, Refusal> {
        let refused = |detail: String| Refusal::unprocessable("policy-file", detail);
        known.lend(self.folder.path()).map_err(|reason| refused(reason.to_string()))?;
        let (policy, inputs) = PolicyReader::default()
            .read_with(&self.path())
            .map_err(|reason| refused(self.without_folder(&reason.to_string())))?;
        check_inputs(rules, inputs.as_ref()).map_err(refused)?;
        Ok(policy)
    }

    /// The text without the name of the folder, which tells a caller nothing.
    fn without_folder(&self, text: &str) -> String {
        let folder: &Path = self.folder.path();
        text.replace(&format!("{}/", folder.display()), "")
    }
}

/// A policy that says how records become its features must say what the loop says.
fn check_inputs(rules: &Rules, inputs: Option<&Inputs>) -> Result<(), String> {
    let Some(inputs) = inputs else { return Ok(()) };
    let same = [
        ("actions", inputs.actions == rules.actions || rules.candidates.is_some()),
        ("candidates", inputs.candidates == rules.candidates),
        ("features", inputs.encoding == rules.encoding),
        ("reward range", inputs.reward == rules.reward_range),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((what, _)) => Err(format!(
            "the {what} of the policy should be those of the loop, but are others: learn it from the logs of the loop with \
             --prior and a policy of the loop"
        )),
    }
}
