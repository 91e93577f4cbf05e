use std::collections::BTreeMap;

/// A variable that a `subPathExpr` names and the container does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("subPathExpr {expression:?}: the container has no variable {name:?}")]
pub struct Unexpanded {
    /// The expression.
    pub expression: String,
    /// The variable.
    pub name: String,
}

/// The expression with the values of its variables: `$(NAME)` is a variable, `$$` a dollar sign; a
/// dollar sign before anything else, and a `$(` that is never closed, stand for themselves.
pub fn expand(expression: &str, variables: &BTreeMap<String, String>) -> Result<String, Unexpanded> {
    let mut text = String::with_capacity(expression.len());
    let mut rest = expression;
    // After the last `)` none is looked for.
    let last = expression.rfind(')').unwrap_or_default();
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let variable = if expression.len() - after.len() < last { variable(after) } else { None };
        rest = match (after.strip_prefix('$'), variable) {
            (Some(rest), _) => {
                text.push('$');
                rest
            }
            (None, Some((name, rest))) => {
                let value = variables
                    .get(name)
                    .ok_or_else(|| Unexpanded { expression: expression.to_owned(), name: name.to_owned() })?;
                text.push_str(value);
                rest
            }
            (None, None) => {
                text.push('$');
                after
            }
        };
    }
    text.push_str(rest);
    Ok(text)
}

fn variable(after_dollar: &str) -> Option<(&str, &str)> {
    after_dollar.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream's rules: what each expression becomes when A is `1` and EMPTY is nothing.
    #[test]
    fn expressions_are_expanded_as_upstream_does() {
        let variables = [("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())].into();
        for (expression, expected) in [
            ("logs", "logs"),
            ("$(A)", "1"),
            ("x-$(A)-$(A)", "x-1-1"),
            ("a$(EMPTY)b", "ab"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("cost$", "cost$"),
            ("$(A", "$(A"),
            ("$((A)", ""),
            ("$()", ""),
        ] {
            match expand(expression, &variables) {
                Ok(text) => assert_eq!(text, expected, "{expression}"),
                Err(error) => assert!(expected.is_empty(), "{error}"),
            }
        }
    }

    #[test]
    fn a_variable_that_is_missing_is_named() {
        let error = expand("logs/$(POD_NAME)", &BTreeMap::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "subPathExpr \"logs/$(POD_NAME)\": the container has no variable \"POD_NAME\""
        );
    }
}
