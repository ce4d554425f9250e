package podexecd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// Values with credentials are masked; others are shown as they are, unset ones too.
func TestFlagValues(t *testing.T) {
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.Int("max-pods", 110, "")
	fs.String("kubeconfig", "", "")
	fs.String("provider-url", "", "")
	fs.String("marked", "", "")
	fs.StringSlice("manifest-url-header", nil, "")
	fs.StringSlice("manifest-url", nil, "")
	if err := fs.SetAnnotation("marked", "classified", []string{"true"}); err != nil {
		t.Fatal(err)
	}
	if err := fs.Parse([]string{
		"--kubeconfig=/etc/kubelet.conf", "--provider-url=https://me:hunter2@example.com/x", "--marked=hunter2", "--manifest-url-header=Authorization:hunter2",
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"max-pods": "110", "kubeconfig": "/etc/kubelet.conf", "provider-url": classified, "marked": classified, "manifest-url-header": classified,
		"manifest-url": "[]",
	}
	if diff := cmp.Diff(want, flagValues(fs)); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// The program's own flags are shown.
func TestFlagzOfOptions(t *testing.T) {
	opts, err := parse([]string{"--root-dir=" + t.TempDir(), "--hostname-override=n1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := opts.flags["hostname-override"]; got != "n1" || len(opts.flags) < 100 {
		t.Errorf("%d flags are shown, --hostname-override as %q", len(opts.flags), got)
	}
}
