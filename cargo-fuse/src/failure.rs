//! How a command ends that does not succeed.

/// What it found, or why it could not look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// What was asked for and is printed all the same.
    pub(crate) text: String,
    /// What is wrong: lower case, no full stop. Empty if the text says it.
    pub(crate) message: String,
    /// The exit status.
    pub(crate) code: u8,
}

impl Failure {
    /// The command could look, and something is not as it should be.
    pub(crate) fn found(message: impl Into<String>) -> Failure {
        Failure { text: String::new(), message: message.into(), code: 1 }
    }

    /// The command could not look: a wrong call, a build that fails, a file that cannot be read.
    pub(crate) fn broken(message: impl Into<String>) -> Failure {
        Failure { text: String::new(), message: message.into(), code: 2 }
    }

    /// The same with a text for the standard output.
    pub(crate) fn with_text(self, text: String) -> Failure {
        Failure { text, ..self }
    }
}

/// A text for the standard output.
pub(crate) type Outcome = Result<String, Failure>;
