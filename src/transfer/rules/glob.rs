//! Wildcards as git reads them (gitignore(5), *Pattern format*): `*`, `?`, `**/`, `[a-z]`, `[[:alpha:]]`,
//! `\`. Braces are letters like any.
//!
//! All positions that the pattern may be in are kept at once, so that none takes more than its length
//! times that of the name.

/// The bytes at which a pattern is more than text.
const SPECIAL: &[u8] = b"*?[\\";

/// A pattern with wildcards.
#[derive(Debug)]
pub(super) struct Glob {
    tokens: Vec<Token>,
}

#[derive(Debug)]
enum Token {
    /// A byte, of the name once that is folded if it is to be.
    Byte(u8),
    /// Any byte but a slash.
    Any,
    /// Any of these bytes, and never a slash.
    Class(Set),
    /// Any bytes but slashes, or none.
    Star,
    /// Any bytes, or none.
    Deep,
    /// Goes on here, or so many tokens further.
    Skip(usize),
}

/// A set of bytes.
#[derive(Debug, Default)]
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// The length of the text before the first wildcard.
pub(super) fn literal(pattern: &[u8]) -> usize {
    let wild = pattern.iter().position(|it| SPECIAL.contains(it));
    wild.unwrap_or(pattern.len())
}

impl Glob {
    /// Parses a pattern; none if it matches nothing, as one that ends in the middle of a class does.
    /// With `folds` the names that it is matched with have no capital ASCII letters.
    pub(super) fn parse(pattern: &[u8], folds: bool) -> Option<Self> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&byte) = pattern.get(at) {
            match byte {
                b'\\' => {
                    // As it is, also if names are folded: a capital letter then matches nothing.
                    tokens.push(Token::Byte(*pattern.get(at + 1)?));
                    at += 2;
                }
                b'?' => {
                    tokens.push(Token::Any);
                    at += 1;
                }
                b'[' => {
                    let (set, end) = class(pattern, at + 1, folds)?;
                    tokens.push(Token::Class(set));
                    at = end;
                }
                b'*' => {
                    let stars = pattern[at..].iter().take_while(|it| **it == b'*').count();
                    let is_first = at == 0 || pattern[at - 1] == b'/';
                    let rest = &pattern[at + stars..];
                    let is_last = matches!(rest, [] | [b'/', ..] | [b'\\', b'/', ..]);
                    if stars > 1 && is_first && is_last {
                        if rest.first() == Some(&b'/') {
                            // No folder at all is enough: without the slash behind it.
                            tokens.push(Token::Skip(2));
                        }
                        tokens.push(Token::Deep);
                    } else {
                        tokens.push(Token::Star);
                    }
                    at += stars;
                }
                _ => {
                    tokens.push(Token::Byte(fold(byte, folds)));
                    at += 1;
                }
            }
        }
        Some(Self { tokens })
    }

    /// Whether all of `name` matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let mut now = vec![false; self.tokens.len() + 1];
        let mut next = now.clone();
        self.enter(0, &mut now);
        for &byte in name {
            next.fill(false);
            let mut is_over = true;
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| now[*at]) {
                let goes_on = match token {
                    Token::Byte(it) => *it == byte,
                    Token::Any => byte != b'/',
                    Token::Class(set) => byte != b'/' && set.has(byte),
                    Token::Star | Token::Deep => {
                        if matches!(token, Token::Deep) || byte != b'/' {
                            self.enter_star(at, &mut next);
                            is_over = false;
                        }
                        false
                    }
                    Token::Skip(_) => false,
                };
                if goes_on {
                    self.enter(at + 1, &mut next);
                    is_over = false;
                }
            }
            if is_over {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        now[self.tokens.len()]
    }

    /// Adds the position `at`, and those that are reached from it without a byte.
    fn enter(&self, at: usize, to: &mut [bool]) {
        match self.tokens.get(at) {
            Some(Token::Star | Token::Deep) => self.enter_star(at, to),
            Some(Token::Skip(over)) => {
                self.enter(at + 1, to);
                self.enter(at + 1 + over, to);
            }
            Some(Token::Byte(_) | Token::Any | Token::Class(_)) | None => to[at] = true,
        }
    }

    fn enter_star(&self, at: usize, to: &mut [bool]) {
        if !to[at] {
            to[at] = true;
            self.enter(at + 1, to);
        }
    }
}

fn fold(byte: u8, folds: bool) -> u8 {
    if folds {
        byte.to_ascii_lowercase()
    } else {
        byte
    }
}

/// The class that begins at `at`, behind its bracket, and where the pattern goes on; none if it does
/// not end, or has a name in it that is none.
fn class(pattern: &[u8], mut at: usize, folds: bool) -> Option<(Set, usize)> {
    let is_negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(is_negated);
    let mut set = Set::default();
    // The byte before a dash; none behind a range or a named class.
    let mut previous = None;
    let mut is_first = true;
    loop {
        match (*pattern.get(at)?, pattern.get(at + 1)) {
            (b']', _) if !is_first => break,
            (b'\\', escaped) => {
                set.add(*escaped?);
                previous = escaped.copied();
                at += 2;
            }
            (b'-', Some(&end)) if previous.is_some() && end != b']' => {
                let is_escaped = end == b'\\';
                at += 1 + usize::from(is_escaped);
                let end = *pattern.get(at)?;
                for byte in previous.unwrap_or(0)..=end {
                    set.add(byte);
                    if folds && byte.is_ascii_uppercase() {
                        set.add(byte.to_ascii_lowercase());
                    }
                }
                previous = None;
                at += 1;
            }
            (b'[', Some(b':')) => {
                let rest = &pattern[at + 2..];
                let length = rest.iter().position(|it| *it == b']')?;
                if let Some(name) = rest[..length].strip_suffix(b":") {
                    let fits = class_bytes(name, folds)?;
                    (0..=u8::MAX)
                        .filter(|it| fits(*it))
                        .for_each(|it| set.add(it));
                    previous = None;
                    at += 2 + length + 1;
                } else {
                    set.add(b'[');
                    previous = Some(b'[');
                    at += 1;
                }
            }
            (byte, _) => {
                set.add(byte);
                previous = Some(byte);
                at += 1;
            }
        }
        is_first = false;
    }
    if is_negated {
        set.0 = set.0.map(|bits| !bits);
    }
    Some((set, at + 1))
}

/// The bytes of a class such as `[:alpha:]`, in ASCII whatever the locale.
fn class_bytes(name: &[u8], folds: bool) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |it| it.is_ascii_alphanumeric(),
        b"alpha" => |it| it.is_ascii_alphabetic(),
        b"blank" => |it| matches!(it, b' ' | b'\t'),
        b"cntrl" => |it| it.is_ascii_control(),
        b"digit" => |it| it.is_ascii_digit(),
        b"graph" => |it| it.is_ascii_graphic(),
        b"lower" => |it| it.is_ascii_lowercase(),
        b"print" => |it| it.is_ascii_graphic() || it == b' ',
        b"punct" => |it| it.is_ascii_punctuation(),
        b"space" => |it| matches!(it, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" if folds => |it| it.is_ascii_alphabetic(),
        b"upper" => |it| it.is_ascii_uppercase(),
        b"xdigit" => |it| it.is_ascii_hexdigit(),
        _ => return None,
    })
}
