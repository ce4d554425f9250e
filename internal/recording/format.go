package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf16"

	"google.golang.org/protobuf/encoding/protojson"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Version is the version of the format, for writing and reading.
const Version = 1

// MaxLine is the maximum length of a line in bytes. A message of 4 MiB, gRPC's limit, fits after encoding.
const MaxLine = 8 << 20

// longest is the maximum time of a message after the start. It keeps hostile numbers from overflowing a
// time.Duration.
const longest = 100 * 365 * 24 * time.Hour

var errLineTooLong = fmt.Errorf("the line is longer than %d MiB", MaxLine>>20)

// Header describes the origin of a recording.
type Header struct {
	// Recorded is the time of the subscription: the start of the messages' times.
	Recorded time.Time
	// Endpoint is the address of the recorded podconfigd. It is only shown to users.
	Endpoint string
	// Podctl is the version of the program that recorded. It is only shown to users.
	Podctl string
	// Request is the request of the stream. Nil means the empty request; a Reader never returns nil.
	Request *podconfigv1.WatchPodUpdatesRequest
}

// Format is the encoding of the recorded pods.
func (h Header) Format() podconfigv1.PodFormat { return formatOf(h.Request) }

// formatOf returns the format of a request.
func formatOf(req *podconfigv1.WatchPodUpdatesRequest) podconfigv1.PodFormat {
	if f := req.GetFormat(); f != podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED {
		return f
	}
	return podconfigv1.PodFormat_POD_FORMAT_JSON
}

// Entry is one recorded message.
type Entry struct {
	// At is the time since the start, to the microsecond.
	At      time.Duration
	Message *podconfigv1.WatchPodUpdatesResponse
}

// streamName distinguishes a recording from other JSON.
var streamName = podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName[1:]

type headerLine struct {
	Stream   string          `json:"stream"`
	Version  int             `json:"version"`
	Recorded time.Time       `json:"recorded"`
	Endpoint string          `json:"endpoint,omitempty"`
	Podctl   string          `json:"podctl,omitempty"`
	Request  json.RawMessage `json:"request,omitempty"`
}

type entryLine struct {
	Seconds float64         `json:"seconds"`
	Message json.RawMessage `json:"message"`
}

func encodeHeader(h Header) ([]byte, error) {
	request, err := protojson.Marshal(h.Request)
	if err != nil {
		return nil, err
	}
	return encodeLine(headerLine{
		Stream: streamName, Version: Version,
		Recorded: h.Recorded, Endpoint: h.Endpoint, Podctl: h.Podctl, Request: request,
	})
}

func decodeHeader(line []byte) (Header, error) {
	var l headerLine
	if err := json.Unmarshal(line, &l); err != nil {
		return Header{}, fmt.Errorf("not the header of a recording: %w", err)
	}
	if l.Stream != streamName {
		return Header{}, fmt.Errorf("not the header of a recording: the stream is %q; want %q", l.Stream, streamName)
	}
	if l.Version != Version {
		return Header{}, fmt.Errorf("the recording has version %d of the format; only version %d can be read", l.Version, Version)
	}
	h := Header{
		Recorded: l.Recorded, Endpoint: l.Endpoint, Podctl: l.Podctl, Request: &podconfigv1.WatchPodUpdatesRequest{},
	}
	if l.Request == nil {
		return h, nil
	}
	if err := lenient.Unmarshal(l.Request, h.Request); err != nil {
		return Header{}, fmt.Errorf("the recorded request: %w", err)
	}
	return h, nil
}

func encodeEntry(e Entry) ([]byte, error) {
	message, err := protojson.Marshal(e.Message)
	if err != nil {
		return nil, err
	}
	return encodeLine(entryLine{Seconds: float64(e.At.Microseconds()) / 1e6, Message: message})
}

func decodeEntry(line []byte) (Entry, error) {
	var l entryLine
	if err := json.Unmarshal(line, &l); err != nil {
		return Entry{}, fmt.Errorf("not a line of a recording: %w", err)
	}
	if l.Message == nil {
		return Entry{}, errors.New("the line has no message")
	}
	if l.Seconds < 0 || l.Seconds > longest.Seconds() {
		return Entry{}, fmt.Errorf("%v seconds is no time since the start", l.Seconds)
	}
	e := Entry{
		At:      time.Duration(math.Round(l.Seconds*1e6)) * time.Microsecond,
		Message: &podconfigv1.WatchPodUpdatesResponse{},
	}
	if err := lenient.Unmarshal(l.Message, e.Message); err != nil {
		return Entry{}, fmt.Errorf("the message: %w", err)
	}
	return e, nil
}

// lenient ignores fields of later versions of podconfig.v1.
var lenient = protojson.UnmarshalOptions{DiscardUnknown: true}

// encodeLine also removes the spaces that protojson adds at random.
func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	line := ascii(b.Bytes())
	if len(line) > MaxLine {
		return nil, errLineTooLong
	}
	return line, nil
}

// ascii escapes characters that aren't printable ASCII, as JSON allows. Outside of strings, JSON has only ASCII. In
// strings, control characters are already escaped.
func ascii(text []byte) []byte {
	foreign := func(r rune) bool { return r >= 0x7f }
	i := bytes.IndexFunc(text, foreign)
	if i < 0 {
		return text
	}
	out := slices.Clone(text[:i])
	for _, r := range string(text[i:]) {
		if !foreign(r) {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}
