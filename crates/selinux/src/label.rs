use std::fmt;
use std::str::FromStr;

use crate::Level;

/// A whole label, `user:role:type:level`, in its canonical form. A policy without multi-level
/// security has no level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    user: Name,
    role: Name,
    kind: Name,
    level: Option<Level>,
}

/// A user, role or type. Letters, digits, `_`, `.` and `-` only: a label ends up quoted in mount
/// options, and nothing in it may close that quote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Text that is no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Too few parts.
    #[error("{text:?} is not an SELinux label: it takes user:role:type:level")]
    Parts {
        /// The text.
        text: String,
    },
    /// A user, role or type that has no place in a label.
    #[error("{text:?} is not a valid {part}: it takes letters, digits, '_', '.' and '-'")]
    Name {
        /// The text.
        text: String,
        /// Which part.
        part: Part,
    },
    /// Text that is no level.
    #[error(
        "{text:?} is not an SELinux level: it takes a form such as s0:c1,c2 or s0-s0:c0.c1023, c0 to c1023"
    )]
    Level {
        /// The text.
        text: String,
    },
    /// A range whose upper end does not cover the lower one.
    #[error("{text:?} is not a range of levels: the high level does not dominate the low level")]
    Range {
        /// The text.
        text: String,
    },
}

/// A part of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The SELinux user.
    User,
    /// The role.
    Role,
    /// The type.
    Type,
    /// The level.
    Level,
}

impl Name {
    /// This text as the name of a `part`.
    pub fn new(text: &str, part: Part) -> Result<Self, LabelError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if !text.is_empty() && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(LabelError::Name { text: text.to_owned(), part })
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Label {
    /// The SELinux user.
    #[must_use]
    pub fn user(&self) -> &Name {
        &self.user
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> &Name {
        &self.role
    }

    /// The type.
    #[must_use]
    pub fn kind(&self) -> &Name {
        &self.kind
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Option<&Level> {
        self.level.as_ref()
    }

    /// The same with another user.
    #[must_use]
    pub fn with_user(self, user: Name) -> Self {
        Self { user, ..self }
    }

    /// The same with another role.
    #[must_use]
    pub fn with_role(self, role: Name) -> Self {
        Self { role, ..self }
    }

    /// The same with another type.
    #[must_use]
    pub fn with_kind(self, kind: Name) -> Self {
        Self { kind, ..self }
    }

    /// The same with another level.
    #[must_use]
    pub fn with_level(self, level: Level) -> Self {
        Self { level: Some(level), ..self }
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let mut parts = text.splitn(4, ':');
        let (Some(user), Some(role), Some(kind)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(LabelError::Parts { text: text.to_owned() });
        };
        Ok(Self {
            user: Name::new(user, Part::User)?,
            role: Name::new(role, Part::Role)?,
            kind: Name::new(kind, Part::Type)?,
            level: parts.next().map(Level::from_str).transpose()?,
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.user, self.role, self.kind)?;
        self.level.as_ref().map_or(Ok(()), |level| write!(f, ":{level}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Role => "role",
            Self::Type => "type",
            Self::Level => "level",
        })
    }
}

/// Read from and written to a string, by `FromStr` and `Display`.
macro_rules! text_serde {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_serde;

text_serde!(Label);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_keeps_the_colon_of_its_level() {
        let label: Label = "system_u:object_r:container_file_t:s0:c2,c1".parse().unwrap();
        assert_eq!(label.kind().as_str(), "container_file_t");
        assert_eq!(label.to_string(), "system_u:object_r:container_file_t:s0:c1,c2");
    }

    #[test]
    fn labels_with_the_same_categories_are_equal_however_they_are_written() {
        let read = |t: &str| t.parse::<Label>().unwrap();
        assert_eq!(read("u:r:t:s0:c2,c1"), read("u:r:t:s0:c1,c2"));
        assert_eq!(read("u:r:t:s0:c0.c3"), read("u:r:t:s0:c3,c0.c2"));
        assert_ne!(read("u:r:t:s0:c1,c2"), read("u:r:t:s0:c1,c3"));
        assert_ne!(read("u:r:t"), read("u:r:t:s0"));
    }

    #[test]
    fn nothing_in_a_label_can_close_a_quote_or_start_another_mount_option() {
        for text in [
            "u\":r:t:s0",
            "u:r,exec:t:s0",
            "u:r:t\\:s0",
            "u:r:t :s0",
            "u:r:t\0:s0",
            "ü:r:t:s0",
            "u:r:t:s0\",exec",
        ] {
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
        assert!(matches!("u::t:s0".parse::<Label>(), Err(LabelError::Name { part: Part::Role, .. })));
        assert!(matches!("u:r".parse::<Label>(), Err(LabelError::Parts { .. })));
    }

    #[test]
    fn labels_travel_as_text() {
        let label: Label = serde_json::from_str(r#""u:r:t:s0:c2,c1""#).unwrap();
        assert_eq!(serde_json::to_string(&label).unwrap(), r#""u:r:t:s0:c1,c2""#);
    }
}
