//! The client's model, where it offers one: `sampling/createMessage` goes to whoever called the tool that needs a text.
//!
//! The thread that needs it waits; the SDK's thread asks. What the client says is untrusted and judged by the engine.

// The protocol will let clients choose their models themselves one day. Until then this is how they are asked.
#![expect(deprecated, reason = "sampling is deprecated from protocol 2026-07-28 on, and what the ones before have")]

use std::sync::OnceLock;
use std::sync::mpsc;

use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use rmcp::RoleServer;
use rmcp::model::{ClientResult, CreateMessageRequest, CreateMessageRequestParams, SamplingMessage, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::tools::Steps;

/// What stands as the name of a model that the client has not named.
const MODEL: &str = "client";
/// Characters of an error that are told.
const ERROR_CHARS_MAX: usize = 300;

/// The model of the client that made a call.
pub(super) struct ClientModel {
    peer: Peer<RoleServer>,
    handle: Handle,
    /// Tells when the call is given up.
    cancelled: watch::Receiver<bool>,
    /// Tells when the client is gone.
    gone: watch::Receiver<bool>,
    steps: Steps,
    /// What the client says that its model is.
    name: OnceLock<String>,
}

impl ClientModel {
    /// The model of the client that made a call; `None` where it offers none.
    pub(super) fn of(
        context: &RequestContext<RoleServer>,
        cancelled: watch::Receiver<bool>,
        gone: watch::Receiver<bool>,
        steps: Steps,
    ) -> Option<Self> {
        context.client_capabilities()?.sampling?;
        // Later versions of the protocol have no calls of ours.
        context.protocol_version().filter(|version| version.has_initialize())?;
        let (peer, handle) = (context.peer.clone(), Handle::try_current().ok()?);
        Some(Self { peer, handle, cancelled, gone, steps, name: OnceLock::new() })
    }
}

impl Summarizer for ClientModel {
    fn model(&self) -> &str {
        self.name.get().map_or(MODEL, String::as_str)
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        let tokens_max = u32::try_from(prompt.tokens_max).unwrap_or(u32::MAX);
        let material = SamplingMessage::user_text(prompt.material.as_str());
        let params = CreateMessageRequestParams::new(vec![material], tokens_max)
            .with_system_prompt(prompt.instructions.as_str());
        let (tell, told) = mpsc::channel();
        let (peer, time_max) = (self.peer.clone(), prompt.time_max);
        let (mut cancelled, mut gone) = (self.cancelled.clone(), self.gone.clone());
        self.steps.tell("the client's model is asked");
        self.handle.spawn(async move {
            let request = ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params));
            let answer = async {
                let mut asked = peer
                    .send_cancellable_request(request, PeerRequestOptions::no_options())
                    .await
                    .map_err(|error| failed(&error))?;
                let (why, reason) = tokio::select! {
                    answer = &mut asked.rx => {
                        return match answer {
                            Ok(Ok(ClientResult::CreateMessageResult(answer))) => Ok(*answer),
                            Ok(Ok(_)) => Err(SummarizerError::Unusable("it is no message".to_owned())),
                            Ok(Err(error)) => Err(failed(&error)),
                            Err(_) => Err(SummarizerError::Unreachable("the client is gone".to_owned())),
                        };
                    }
                    _ = cancelled.wait_for(|is| *is) => {
                        (SummarizerError::Unreachable("the call was given up".to_owned()), "the call was given up")
                    }
                    _ = gone.wait_for(|is| *is) => {
                        return Err(SummarizerError::Unreachable("the client is gone".to_owned()));
                    }
                    () = tokio::time::sleep(time_max) => (SummarizerError::TimedOut(time_max), "it took too long"),
                };
                // Whether it hears that is its own business.
                drop(asked.cancel(Some(reason.to_owned())).await);
                Err(why)
            };
            // Whoever asked may be gone.
            drop(tell.send(answer.await));
        });
        // The task tells in any case; it is dropped with everything when the process ends.
        let answer = told.recv().map_err(|_| SummarizerError::Unreachable("the process ends".to_owned()))??;
        if !answer.model.is_empty() {
            drop(self.name.set(answer.model));
        }
        let texts: Vec<String> = answer
            .message
            .content
            .into_vec()
            .into_iter()
            .filter_map(|block| block.as_text().map(|text| text.text.clone()))
            .collect();
        match texts.is_empty() {
            true => Err(SummarizerError::Unusable("it has no text".to_owned())),
            false => Ok(texts.join("\n")),
        }
    }
}

fn failed(error: &ServiceError) -> SummarizerError {
    match error {
        ServiceError::McpError(error) => {
            SummarizerError::Refused(error.message.chars().take(ERROR_CHARS_MAX).collect())
        }
        error => SummarizerError::Unreachable(error.to_string().chars().take(ERROR_CHARS_MAX).collect()),
    }
}
