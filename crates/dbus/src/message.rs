//! The D-Bus wire format, as far as it is needed here. All numbers are in this machine's byte order, since the other side is
//! on this machine.

use std::os::fd::OwnedFd;

/// The first byte of each message: the byte order.
const ORDER: u8 = if cfg!(target_endian = "little") { b'l' } else { b'B' };
const PROTOCOL: u8 = 1;
/// The part of a message that says how long it is.
pub(crate) const FIXED: usize = 16;
/// No message that is read here comes near.
const LARGEST: usize = 1 << 20;

/// Types of messages.
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

/// Fields of a header.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_TO: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// The value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number of 64 bits.
    Number(u64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Numbers of 32 bits.
    Numbers(Vec<u32>),
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

/// Arguments of a call, with their types.
#[derive(Debug, Clone, Default)]
pub struct Body {
    types: String,
    bytes: Writer,
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The object's path.
    pub path: &'a str,
    /// The name of the program.
    pub destination: &'a str,
    /// The interface of the method.
    pub interface: &'a str,
    /// The method.
    pub method: &'a str,
    /// Its arguments.
    pub body: &'a Body,
}

/// The answer to a call.
#[derive(Debug, Default)]
pub struct Reply {
    types: String,
    bytes: Vec<u8>,
    /// Files that came with it.
    pub files: Vec<OwnedFd>,
}

/// A signal.
#[derive(Debug)]
pub struct Signal {
    /// The unique name of the program that has sent it, as the bus says; empty without a bus.
    pub sender: String,
    /// The interface of its name.
    pub interface: String,
    /// Its name.
    pub member: String,
    /// Its values.
    pub body: Reply,
}

/// A message that was read, and how many files came with it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) received: Received,
    pub(crate) files: usize,
}

/// A message, as far as it matters here.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to the call with this serial number.
    Returned { serial: u32, reply: Reply },
    /// The call was refused.
    Refused { serial: u32, name: String, words: String },
    /// A signal.
    Signal(Signal),
    /// Something else.
    Other,
}

impl Reply {
    /// The texts at its beginning; what comes after another type than a number is not read.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        Reader { bytes: &self.bytes, at: 0 }.texts(&self.types).unwrap_or_default()
    }

    /// The flag that it has alone.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        let mut reader = Reader { bytes: &self.bytes, at: 0 };
        (self.types == "b").then(|| reader.number().map(|number| number != 0)).flatten()
    }

    /// The flag of the property that it has alone.
    #[must_use]
    pub fn property_flag(&self) -> Option<bool> {
        let mut reader = Reader { bytes: &self.bytes, at: 0 };
        let is_flag = self.types == "v" && reader.signature()? == "b";
        is_flag.then(|| reader.number().map(|number| number != 0)).flatten()
    }

    /// The 64-bit number of the property that it has alone.
    #[must_use]
    pub fn property_number(&self) -> Option<u64> {
        let mut reader = Reader { bytes: &self.bytes, at: 0 };
        (self.types == "v" && reader.signature()? == "t").then(|| reader.long_number()).flatten()
    }
}

impl Body {
    /// With a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.types.push('s');
        self.bytes.text(text);
        self
    }

    /// With a number of 32 bits with a sign.
    #[must_use]
    pub fn signed(mut self, number: i32) -> Self {
        self.types.push('i');
        self.bytes.align(4);
        self.bytes.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    /// With a flag.
    #[must_use]
    pub fn flag(mut self, flag: bool) -> Self {
        self.types.push('b');
        self.bytes.number(u32::from(flag));
        self
    }

    /// With a list of named values.
    #[must_use]
    pub fn properties(mut self, properties: &[Property]) -> Self {
        self.types.push_str("a(sv)");
        self.bytes.array(8, |bytes| {
            for property in properties {
                bytes.align(8);
                bytes.text(property.name);
                bytes.value(&property.value);
            }
        });
        self
    }

    /// With an empty list of units of systemd, each with its properties.
    #[must_use]
    pub fn no_units(mut self) -> Self {
        self.types.push_str("a(sa(sv))");
        self.bytes.array(8, |_| {});
        self
    }
}

impl Call<'_> {
    /// The whole message.
    pub(crate) fn message(&self, serial: u32) -> Vec<u8> {
        let mut message = Writer(vec![ORDER, CALL, 0, PROTOCOL]);
        message.number(length(self.body.bytes.0.len()));
        message.number(serial);
        message.array(8, |fields| {
            fields.field(PATH, "o", self.path);
            fields.field(DESTINATION, "s", self.destination);
            fields.field(INTERFACE, "s", self.interface);
            fields.field(MEMBER, "s", self.method);
            if !self.body.types.is_empty() {
                fields.align(8);
                fields.0.push(SIGNATURE);
                fields.signature("g");
                fields.signature(&self.body.types);
            }
        });
        message.align(8);
        message.0.extend_from_slice(&self.body.bytes.0);
        message.0
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(length(text.len()));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// Signatures are short: one byte has their length.
    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// The length of an array does not count the padding before its first element.
    fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.number(0);
        let place = self.0.len();
        self.align(alignment);
        let first = self.0.len();
        elements(self);
        let bytes = length(self.0.len() - first).to_ne_bytes();
        if let Some(written) = self.0.get_mut(place - bytes.len()..place) {
            written.copy_from_slice(&bytes);
        }
    }

    fn field(&mut self, code: u8, kind: &str, text: &str) {
        self.align(8);
        self.0.push(code);
        self.signature(kind);
        self.text(text);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Flag(flag) => {
                self.signature("b");
                self.number(u32::from(*flag));
            }
            Value::Number(number) => {
                self.signature("t");
                self.align(8);
                self.0.extend_from_slice(&number.to_ne_bytes());
            }
            Value::Text(text) => {
                self.signature("s");
                self.text(text);
            }
            Value::Bytes(bytes) => {
                self.signature("ay");
                self.array(1, |array| array.0.extend_from_slice(bytes));
            }
            Value::Numbers(pids) => {
                self.signature("au");
                self.array(4, |array| pids.iter().for_each(|pid| array.number(*pid)));
            }
        }
    }
}

/// How many bytes follow the fixed part of a message; `None` if it is none that can be read here.
pub(crate) fn rest(fixed: &[u8; FIXED]) -> Option<usize> {
    let mut reader = Reader { bytes: fixed, at: 0 };
    let order = reader.byte()?;
    reader.at = 4;
    let body = usize::try_from(reader.number()?).ok()?;
    reader.at = 12;
    let fields = usize::try_from(reader.number()?).ok()?;
    let all = fields.checked_next_multiple_of(8)?.checked_add(body)?;
    (order == ORDER && all <= LARGEST).then_some(all)
}

/// Reads a whole message without its files; `None` if it is cut or wrong.
pub(crate) fn read(message: &[u8]) -> Option<Message> {
    let mut reader = Reader { bytes: message, at: 1 };
    let kind = reader.byte()?;
    reader.at = 12;
    let end = usize::try_from(reader.number()?).ok()?.checked_add(FIXED)?;
    let mut header = Header::default();
    while reader.at < end {
        reader.align(8);
        let code = reader.byte()?;
        let types = reader.signature()?;
        match (code, types) {
            (REPLY_TO, "u") => header.reply_to = reader.number()?,
            (SIGNATURE, "g") => header.types = reader.signature()?,
            (MEMBER, "s") => header.member = reader.text()?,
            (INTERFACE, "s") => header.interface = reader.text()?,
            (ERROR_NAME, "s") => header.error = reader.text()?,
            (SENDER, "s") => header.sender = reader.text()?,
            (UNIX_FDS, "u") => header.files = reader.number()?,
            (_, "s" | "o") => drop(reader.text()?),
            (_, "g") => drop(reader.signature()?),
            (_, "u") => drop(reader.number()?),
            _ => return None,
        }
    }
    reader.align(8);
    let bytes = message.get(reader.at..).unwrap_or_default().to_vec();
    // The texts show that it is not cut.
    let texts = reader.texts(header.types)?;
    let body = Reply { types: header.types.to_owned(), bytes, files: Vec::new() };
    let serial = header.reply_to;
    let received = match kind {
        RETURN => Received::Returned { serial, reply: body },
        ERROR => Received::Refused {
            serial,
            name: header.error.to_owned(),
            words: texts.into_iter().next().unwrap_or_default(),
        },
        SIGNAL => {
            let [sender, interface, member] =
                [header.sender, header.interface, header.member].map(str::to_owned);
            Received::Signal(Signal { sender, interface, member, body })
        }
        _ => Received::Other,
    };
    Some(Message { received, files: usize::try_from(header.files).ok()? })
}

#[derive(Default)]
struct Header<'a> {
    reply_to: u32,
    types: &'a str,
    member: &'a str,
    interface: &'a str,
    error: &'a str,
    sender: &'a str,
    files: u32,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4);
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long_number(&mut self) -> Option<u64> {
        self.align(8);
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        self.take(1)?;
        Some(text)
    }

    fn signature(&mut self) -> Option<&'a str> {
        let length = usize::from(self.byte()?);
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        self.take(1)?;
        Some(text)
    }

    /// The texts at the beginning of a body of these types; what comes after another type than a number is not read.
    fn texts(&mut self, types: &str) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        for kind in types.chars() {
            match kind {
                's' | 'o' => texts.push(self.text()?.to_owned()),
                'u' => drop(self.number()?),
                _ => break,
            }
        }
        Some(texts)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An answer without values of these types.
    pub(crate) fn returned(serial: u32, kind: &str) -> Vec<u8> {
        let fields = |fields: &mut Writer| {
            reply_to(fields, serial);
            types(fields, kind);
        };
        answer(RETURN, fields, &Body::default())
    }

    /// The answer to a call with so many files.
    pub(crate) fn with_files(serial: u32, files: u32) -> Vec<u8> {
        let fields = |fields: &mut Writer| {
            reply_to(fields, serial);
            types(fields, "h");
            number(fields, UNIX_FDS, files);
        };
        answer(RETURN, fields, &Body::default())
    }

    /// The answer to a call with a text.
    pub(crate) fn with_text(serial: u32, text: &str) -> Vec<u8> {
        let fields = |fields: &mut Writer| {
            reply_to(fields, serial);
            types(fields, "s");
        };
        answer(RETURN, fields, &Body::default().text(text))
    }

    /// A signal with a flag, of this program and with so many files.
    pub(crate) fn signal(sender: &str, member: &str, flag: bool, files: u32) -> Vec<u8> {
        let fields = |fields: &mut Writer| {
            fields.field(SENDER, "s", sender);
            fields.field(MEMBER, "s", member);
            types(fields, "b");
            number(fields, UNIX_FDS, files);
        };
        answer(SIGNAL, fields, &Body::default().flag(flag))
    }

    /// The signal that another program owns a name.
    pub(crate) fn owner_changed(sender: &str, name: &str, owner: &str) -> Vec<u8> {
        let fields = |fields: &mut Writer| {
            fields.field(SENDER, "s", sender);
            fields.field(INTERFACE, "s", "org.freedesktop.DBus");
            fields.field(MEMBER, "s", "NameOwnerChanged");
            types(fields, "sss");
        };
        answer(SIGNAL, fields, &Body::default().text(name).text("").text(owner))
    }

    fn answer(kind: u8, fields: impl FnOnce(&mut Writer), body: &Body) -> Vec<u8> {
        let mut message = Writer(vec![ORDER, kind, 1, PROTOCOL]);
        message.number(length(body.bytes.0.len()));
        message.number(9);
        message.array(8, fields);
        message.align(8);
        message.0.extend_from_slice(&body.bytes.0);
        message.0
    }

    fn types(fields: &mut Writer, types: &str) {
        fields.align(8);
        fields.0.push(SIGNATURE);
        fields.signature("g");
        fields.signature(types);
    }

    fn reply_to(fields: &mut Writer, serial: u32) {
        number(fields, REPLY_TO, serial);
    }

    fn number(fields: &mut Writer, code: u8, number: u32) {
        fields.align(8);
        fields.0.push(code);
        fields.signature("u");
        fields.number(number);
    }

    fn received(message: &[u8]) -> Received {
        read(message).unwrap().received
    }

    #[test]
    fn a_call_is_written_as_the_specification_says() {
        let body = Body::default().text("a.slice").flag(true);
        let call = Call { path: "/o", destination: "d", interface: "i", method: "M", body: &body };
        let message = call.message(7);
        let fixed: [u8; FIXED] = message[..FIXED].try_into().unwrap();
        assert_eq!(rest(&fixed), Some(message.len() - FIXED));
        assert_eq!(&message[..4], [ORDER, 1, 0, 1]);
        // 4 of the length, 7 letters, a zero byte; 4 of the flag.
        assert_eq!(&message[4..12], [16_u32.to_ne_bytes(), 7_u32.to_ne_bytes()].concat());
        assert_eq!(&message[16..24], b"\x01\x01o\0\x02\0\0\0");
        assert!(message.ends_with(b"a.slice\0\x01\0\0\0") && message.len().is_multiple_of(8));
        assert!(message.windows(7).any(|bytes| bytes == b"\x08\x01g\0\x02sb"));
    }

    #[test]
    fn values_have_the_alignment_of_their_types() {
        let property = |name, value| Property { name, value };
        let body = Body::default().properties(&[
            property("A", Value::Number(5)),
            property("BC", Value::Numbers(vec![1, 2])),
            property("D", Value::Bytes(vec![9])),
            property("E", Value::Flag(true)),
        ]);
        let number = |number: u32| number.to_ne_bytes().to_vec();
        let expected = [
            // The length of the array, and its padding.
            number(70),
            vec![0; 4],
            // A: text, signature, padding, number.
            number(1),
            b"A\0\x01t\0".to_vec(),
            vec![0; 7],
            5_u64.to_ne_bytes().to_vec(),
            number(2),
            b"BC\0\x02au\0".to_vec(),
            vec![0],
            number(8),
            number(1),
            number(2),
        ]
        .concat();
        let written = body.bytes.0;
        assert_eq!(written[8..expected.len()], expected[8..]);
        assert_eq!(
            usize::try_from(u32::from_ne_bytes(written[..4].try_into().unwrap())).unwrap(),
            written.len() - 8
        );
        assert!(written.ends_with(b"\x01\0\0\0"));
    }

    #[test]
    fn answers_and_signals_are_read() {
        let job = "/org/freedesktop/systemd1/job/7";
        let returned = answer(
            RETURN,
            |fields| {
                reply_to(fields, 3);
                types(fields, "o");
            },
            &Body::default().text(job),
        );
        let Received::Returned { serial: 3, reply } = received(&returned) else { panic!() };
        assert_eq!((reply.texts(), reply.flag()), (vec![job.to_owned()], None));
        let refused = answer(
            ERROR,
            |fields| {
                fields.field(ERROR_NAME, "s", "org.x.Known");
                reply_to(fields, 4);
                types(fields, "s");
            },
            &Body::default().text("because"),
        );
        let Received::Refused { serial: 4, name, words } = received(&refused) else { panic!() };
        assert_eq!((name.as_str(), words.as_str()), ("org.x.Known", "because"));
        let signal = answer(
            SIGNAL,
            |fields| {
                fields.field(MEMBER, "s", "PrepareForShutdown");
                fields.field(INTERFACE, "s", "org.x.Manager");
                fields.field(SENDER, "s", ":1.7");
                number(fields, UNIX_FDS, 2);
                types(fields, "b");
            },
            &Body::default().flag(true),
        );
        assert_eq!(read(&signal).unwrap().files, 2);
        let Received::Signal(signal) = received(&signal) else { panic!() };
        assert_eq!(signal.sender, ":1.7");
        assert_eq!(
            (signal.member.as_str(), signal.interface.as_str()),
            ("PrepareForShutdown", "org.x.Manager")
        );
        assert_eq!((signal.body.flag(), signal.body.texts()), (Some(true), vec![]));
        for cut in 0..returned.len() {
            assert!(read(&returned[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn the_number_of_a_property_is_read_and_another_value_is_not() {
        let mut body = Writer::default();
        body.signature("t");
        body.align(8);
        body.0.extend_from_slice(&5_000_000_u64.to_ne_bytes());
        let of =
            |types: &str, bytes: &[u8]| Reply { types: types.into(), bytes: bytes.to_vec(), files: vec![] };
        assert_eq!(of("v", &body.0).property_number(), Some(5_000_000));
        assert_eq!(of("t", &body.0).property_number(), None);
        assert_eq!(of("v", &body.0[..9]).property_number(), None);
        assert_eq!(of("v", b"\x01s\0").property_number(), None);
        assert_eq!(of("b", &[]).flag(), None);
        let flag = b"\x01b\0\0\x01\0\0\0";
        assert_eq!((of("v", flag).property_flag(), of("v", &body.0).property_flag()), (Some(true), None));
    }

    #[test]
    fn a_message_that_is_too_long_or_of_another_order_is_not_read() {
        let fixed = |order: u8, body: u32| {
            let mut bytes = vec![order, RETURN, 0, 1];
            [body, 1, 0].iter().for_each(|number: &u32| bytes.extend_from_slice(&number.to_ne_bytes()));
            <[u8; FIXED]>::try_from(bytes).unwrap()
        };
        assert_eq!(rest(&fixed(ORDER, 8)), Some(8));
        assert_eq!(rest(&fixed(ORDER, u32::MAX)), None);
        assert_eq!(rest(&fixed(b'x', 8)), None);
    }
}
