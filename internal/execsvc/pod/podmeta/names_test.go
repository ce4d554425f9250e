package podmeta

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLogPaths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{LogDir("/var/log/pods", "default", "web-node1", "abc"), "/var/log/pods/default_web-node1_abc"},
		{LogPath("nginx", 3), "nginx/3.log"},
		{LogLinkName("default", "web-node1", "nginx", "0f1e"), "web-node1_default_nginx-0f1e.log"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestLogLinkNameFitsAFileSystem(t *testing.T) {
	got := LogLinkName(strings.Repeat("n", 63), strings.Repeat("p", 253), "c", strings.Repeat("0", 64))
	if len(got) != 255 || !strings.HasSuffix(got, ".log") {
		t.Errorf("the name has %d bytes and ends in %q", len(got), got[len(got)-4:])
	}
}

func TestCheckUID(t *testing.T) {
	for _, uid := range []types.UID{"", ".", "..", "a/b", "../../etc", "a\x00b", types.UID(strings.Repeat("a", 256))} {
		if CheckUID(uid) == nil {
			t.Errorf("UID %q is let through", uid)
		}
	}
	for _, uid := range []types.UID{"c5b5a0c1-7b1f-4b06-9b0f-2c65d2f1b1c2", "0123abcd", "..."} {
		if err := CheckUID(uid); err != nil {
			t.Errorf("UID %q: %v", uid, err)
		}
	}
}
