package podctl

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// output is how a command prints its answer: the value of -o.
type output string

const (
	outputTable output = "table"
	// outputWide is the table with more columns; where a command has none, it is the table.
	outputWide output = "wide"
	outputJSON output = "json"
	outputYAML output = "yaml"
)

// String implements pflag.Value.
func (o *output) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

// Set implements pflag.Value.
func (o *output) Set(s string) error {
	switch v := output(s); v {
	case outputTable, outputWide, outputJSON, outputYAML:
		*o = v
		return nil
	}
	return errors.New("want table, wide, json or yaml")
}

// isTable tells whether the output is for people.
func (o output) isTable() bool { return o == outputTable || o == outputWide }

// endpoint is where a daemon listens: a Unix socket or a TCP address.
type endpoint struct {
	path    string
	address string // host:port; empty for a socket
}

// String implements pflag.Value: the endpoint as it would be written on the command line.
func (e *endpoint) String() string {
	switch {
	case e.address != "":
		return "tcp://" + e.address
	case strings.HasPrefix(e.path, "/"):
		return "unix://" + e.path
	}
	return "unix:" + e.path
}

// Type implements pflag.Value.
func (e *endpoint) Type() string { return "endpoint" }

// Set implements pflag.Value. It takes tcp://host:port and gRPC's names for a socket, unix:///absolute/path and unix:path.
func (e *endpoint) Set(s string) error {
	const want = "want unix:///PATH or tcp://HOST:PORT"
	if rest, ok := strings.CutPrefix(s, "tcp://"); ok {
		if host, port, err := net.SplitHostPort(rest); err != nil || host == "" || port == "" {
			return fmt.Errorf("%s: after tcp:// come a host and a port", want)
		}
		*e = endpoint{address: rest}
		return nil
	}
	if rest, ok := strings.CutPrefix(s, "unix://"); ok {
		if len(rest) < 2 || rest[0] != '/' {
			return fmt.Errorf("%s: after unix:// comes an absolute path", want)
		}
		*e = endpoint{path: rest}
		return nil
	}
	if rest, ok := strings.CutPrefix(s, "unix:"); ok && rest != "" {
		*e = endpoint{path: rest}
		return nil
	}
	if s != "" && (s[0] == '/' || s[0] == '.') {
		return fmt.Errorf("%s: for a path write unix:%s", want, s)
	}
	return errors.New(want)
}

// addTLSFlags adds the flags for endpoints tcp://host:port.
func addTLSFlags(flags *pflag.FlagSet, t *client.TLS) {
	flags.StringVar(&t.CertFile, "tls-cert-file", "", "the `file` of podctl's certificate, in PEM, for tcp endpoints")
	flags.StringVar(&t.KeyFile, "tls-private-key-file", "", "the `file` of the certificate's key, in PEM")
	flags.StringVar(&t.CAFile, "tls-ca-file", "", "the `file` of the authorities that may sign a daemon's certificate; empty: the system's")
	flags.StringVar(&t.ServerName, "tls-server-name", "", "the `name` that must stand in a daemon's certificate; empty: the endpoint's host")
}

// podFormat is the encoding in which watch asks for pods: the value of --format.
type podFormat podconfigv1.PodFormat

var podFormatNames = map[string]podFormat{
	"auto":      podFormat(podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED),
	"json":      podFormat(podconfigv1.PodFormat_POD_FORMAT_JSON),
	"protobuf":  podFormat(podconfigv1.PodFormat_POD_FORMAT_PROTOBUF),
	"reference": podFormat(podconfigv1.PodFormat_POD_FORMAT_REFERENCE),
}

// String implements pflag.Value.
func (f *podFormat) String() string {
	for name, format := range podFormatNames {
		if format == *f {
			return name
		}
	}
	return ""
}

// Type implements pflag.Value.
func (f *podFormat) Type() string { return "encoding" }

// Set implements pflag.Value.
func (f *podFormat) Set(s string) error {
	format, ok := podFormatNames[s]
	if !ok {
		return errors.New("want auto, json, protobuf or reference")
	}
	*f = format
	return nil
}

// resolve turns auto into what the output can show: people see a table made of a few fields, which protobuf carries most
// cheaply; documents show the pod as it is.
func (f podFormat) resolve(o output) podconfigv1.PodFormat {
	switch {
	case f != podFormatNames["auto"]:
		return podconfigv1.PodFormat(f)
	case o.isTable():
		return podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	}
	return podconfigv1.PodFormat_POD_FORMAT_JSON
}

// notificationMode is how watch asks for changes: the value of --mode.
type notificationMode podconfigv1.NotificationMode

var notificationModeNames = map[string]notificationMode{
	"incremental":          notificationMode(podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL),
	"snapshot-and-updates": notificationMode(podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES),
	"snapshot":             notificationMode(podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT),
}

// resolve is the mode to ask for.
func (m notificationMode) resolve() podconfigv1.NotificationMode {
	if m == 0 {
		return podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	}
	return podconfigv1.NotificationMode(m)
}

// String implements pflag.Value.
func (m *notificationMode) String() string {
	for name, mode := range notificationModeNames {
		if mode == notificationMode(m.resolve()) {
			return name
		}
	}
	return ""
}

// Type implements pflag.Value.
func (m *notificationMode) Type() string { return "mode" }

// Set implements pflag.Value.
func (m *notificationMode) Set(s string) error {
	mode, ok := notificationModeNames[s]
	if !ok {
		return errors.New("want incremental, snapshot-and-updates or snapshot")
	}
	*m = mode
	return nil
}
