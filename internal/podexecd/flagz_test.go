package podexecd

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/execconfig"
)

// Values that may be credentials are masked; others are shown as they are, unset ones too.
func TestFlagValues(t *testing.T) {
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.Int("max-pods", 110, "")
	fs.String("kubeconfig", "", "")
	fs.String("marked", "", "")
	fs.String("unknown", "", "")
	fs.Int("node-status-max-images", 1, "")
	fs.StringSlice("manifest-url-header", nil, "")
	fs.StringSlice("manifest-url", nil, "")
	for _, name := range []string{"marked", "node-status-max-images"} {
		if err := fs.SetAnnotation(name, "classified", []string{"true"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.Parse([]string{
		"--kubeconfig=/etc/kubelet.conf", "--marked=hunter2", "--unknown=hunter2", "--manifest-url-header=Authorization:hunter2",
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"max-pods": "110", "kubeconfig": "/etc/kubelet.conf", "marked": classified, "unknown": classified, "manifest-url-header": classified,
		"manifest-url": "[]", "node-status-max-images": classified,
	}
	if diff := cmp.Diff(want, flagValues(fs)); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// TestAddresses: an address with a password is masked, in a flag of any form; other values are shown.
func TestAddresses(t *testing.T) {
	for value, want := range map[string]bool{
		"https://me:hunter2@example.com/x": false, "me:hunter2@example.com:4317": false, "https://hunter2@example.com": false,
		"[unix:///x,tcp://me:hunter2@h:1]": false, "[unix:///x,me:hunter2@h:1]": false, "a=me:hun/ter2@h": false,
		"unix:///run/containerd/containerd.sock": true, "127.0.0.1:4317": true, "[::1]:4317": true, "aws:///eu-1a/i-0": true,
		"/var/lib/kubelet@2/pki": true, "[unix:///x,tcp://h:1]": true, "a=b:c": true,
	} {
		fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
		fs.String("tracing-endpoint", value, "")
		if got := flagValues(fs)["tracing-endpoint"] == value; got != want {
			t.Errorf("%s is shown: %v; want %v", value, got, want)
		}
	}
}

// secretFlags are those of the kubelet whose values are credentials, or may have some. The names of the others in which a word
// suggests one are names of files and of directories, times and switches.
var secretFlags = []string{"manifest-url", "manifest-url-header", "storage-driver-password"}

var notSecret = []string{
	"authentication-token-webhook", "authentication-token-webhook-cache-ttl", "bootstrap-kubeconfig", "image-credential-provider-bin-dir",
	"image-credential-provider-config", "tls-private-key-file", "podconfig-key-file",
}

// TestFlagsOfTheKubelet: no credential on a kubelet's command line is on the page. Each flag that podexecd has is reviewed: it
// is of a plain type, in shownFlags, or masked.
func TestFlagsOfTheKubelet(t *testing.T) {
	var exec execconfig.Flags
	opts := &Options{}
	fs := opts.NewFlagSet("podexecd", about, io.Discard)
	exec.AddFlags(fs)
	for _, name := range secretFlags {
		if err := fs.Set(name, "Authorization:hunter2"); err != nil {
			t.Fatal(err)
		}
		// Whatever podexecd comes to do with the value.
		fs.Lookup(name).Value = pflag.NewFlagSet("", 0).VarPF(&held{"Authorization:hunter2"}, name, "", "").Value
	}
	for name, value := range flagValues(fs) {
		if strings.Contains(value, "hunter2") || slices.Contains(secretFlags, name) && value != classified {
			t.Errorf("--%s is shown as %q", name, value)
		}
	}
	names := map[string]bool{}
	file, err := os.Open("testdata/kubelet-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), " ")
		names[name] = true
	}
	fs.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	for name := range names {
		suspect := slices.ContainsFunc([]string{"token", "header", "password", "secret", "credential", "key", "bootstrap", "url"}, func(word string) bool {
			return strings.Contains(name, word)
		})
		if suspect && !slices.Contains(secretFlags, name) && !slices.Contains(notSecret, name) {
			t.Errorf("--%s: is its value a credential? Add it to secretFlags or notSecret", name)
		}
	}
	for _, name := range secretFlags {
		if slices.Contains(shownFlags, name) || !names[name] {
			t.Errorf("--%s is in shownFlags, or isn't a flag", name)
		}
	}
}

type held struct{ text string }

func (h *held) String() string   { return h.text }
func (h *held) Set(string) error { return nil }
func (h *held) Type() string     { return "string" }

// The program's own flags are shown: none that has a value by default is masked.
func TestFlagzOfOptions(t *testing.T) {
	opts, err := parse([]string{"--root-dir=" + t.TempDir(), "--hostname-override=n1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := opts.flags["hostname-override"]; got != "n1" || len(opts.flags) < 100 {
		t.Errorf("%d flags are shown, --hostname-override as %q", len(opts.flags), got)
	}
	for name, value := range opts.flags {
		if value == classified {
			t.Errorf("the default of --%s is masked", name)
		}
	}
	for _, name := range shownFlags {
		if _, ok := opts.flags[name]; !ok {
			t.Errorf("there is no flag --%s", name)
		}
	}
}
