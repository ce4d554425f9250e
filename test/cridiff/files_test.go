package cridiff

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestRewrittenHosts: a hosts file that is being rewritten is read once it is whole, and one that stays empty is too.
func TestRewrittenHosts(t *testing.T) {
	for name, content := range map[string]string{"rewritten": "127.0.0.1\tlocalhost\n", "stays empty": ""} {
		t.Run(name, func(t *testing.T) {
			s := &Site{Dir: t.TempDir()}
			pod := &v1.Pod{}
			pod.UID = "u"
			path := s.path("root", "pods", "u", hostsFile)
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(os.MkdirAll(filepath.Dir(path), 0o755))
			check(os.WriteFile(path, nil, 0o644))
			wrote := make(chan error, 1)
			time.AfterFunc(50*time.Millisecond, func() { wrote <- os.WriteFile(path, []byte(content), 0o644) })
			files, err := s.filesOf(os.Getpid(), pod)
			check(err)
			check(<-wrote)
			if got := contentOf(files[hostsFile]); got != content {
				t.Errorf("the content is %q; want %q", got, content)
			}
		})
	}
}
