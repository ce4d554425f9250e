package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// messages is a sim in which containers can leave messages.
func newMessageSim(t *testing.T) *sim {
	s := newSim(t)
	s.with(func(c *Config) { c.PodDirs.Current = filepath.Join(s.root, "volumes") })
	return s
}

func TestTerminationMessage(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a", "write", "/dev/termination-log", "out of coffee")
	pod := simPod(a)
	s.mustSync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "out of coffee" {
		t.Errorf("message %q", got)
	}
	// A restarted podexecd reads the same.
	s.Runtime = s.restarted()
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "out of coffee" {
		t.Errorf("message after a restart %q", got)
	}
	file := filepath.Join(s.root, "volumes", "uid-1", "containers", "a", "00000000")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("file %v, error %v; want it writable for all", info, err)
	}
	// It goes with the container.
	if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestTerminationMessageLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		containers, wrote, want int
	}{
		"one":        {1, 5000, 4096},
		"one, short": {1, 100, 100},
		"three":      {3, 5000, 4096},
		"six":        {6, 5000, 2048},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMessageSim(t)
			var containers []v1.Container
			for i := range tc.containers {
				containers = append(containers, sample(string(rune('a'+i)), "write", "/dev/termination-log", strings.Repeat("x", tc.wrote)))
			}
			pod := simPod(containers...)
			s.mustSync(pod)
			if got := len(s.wantContainer(pod, "a", observed.Exited, 0).Message); got != tc.want {
				t.Errorf("the message has %d bytes; want %d", got, tc.want)
			}
		})
	}
}

// A container may write any bytes; the message is text.
func TestTerminationMessageIsText(t *testing.T) {
	s := newMessageSim(t)
	pod := simPod(sample("a", "write", "/dev/termination-log", strings.Repeat("é", 3000)), sample("b"), sample("c"), sample("d"), sample("e"))
	s.mustSync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; !utf8.ValidString(got) || len(got) < 2400 || len(got) > 2457 {
		t.Errorf("message of %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
}

func TestTerminationMessageFromTheLog(t *testing.T) {
	lines := strings.Repeat("line\n", 100) + "the end"
	for name, tc := range map[string]struct {
		policy v1.TerminationMessagePolicy
		code   int32
		want   string
	}{
		"it failed":         {v1.TerminationMessageFallbackToLogsOnError, 1, strings.Repeat("line\n", 79) + "the end\n"},
		"it ended well":     {v1.TerminationMessageFallbackToLogsOnError, 0, ""},
		"another policy":    {v1.TerminationMessageReadFile, 1, ""},
		"wasn't set at all": {"", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMessageSim(t)
			a := sample("a", "print", lines)
			a.TerminationMessagePolicy = tc.policy
			pod := simPod(a)
			s.mustSync(pod)
			s.exit(pod, "a", tc.code)
			if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != tc.want {
				t.Errorf("message %q; want %q", got, tc.want)
			}
		})
	}
}

func TestTerminationMessageFromALongLog(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a", "print", strings.Repeat("y", 5000))
	a.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	pod := simPod(a)
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != strings.Repeat("y", 2047)+"\n" {
		t.Errorf("the message has %d bytes; want the last 2048", len(got))
	}
}

// A failed start has the runtime's message, and no log is read.
func TestMessageOfAFailedStart(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a")
	a.Command, a.TerminationMessagePolicy = []string{"/nope"}, v1.TerminationMessageFallbackToLogsOnError
	pod := simPod(a)
	s.sync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; !strings.HasSuffix(got, "executable file not found in $PATH: unknown") {
		t.Errorf("message %q", got)
	}
}

// The pod's own mount there isn't shadowed, and is read as the message. A link that has replaced it isn't followed.
func TestTerminationMessagePathInAVolume(t *testing.T) {
	s := newMessageSim(t)
	root, err := filepath.EvalSymlinks(s.root)
	if err != nil {
		t.Fatal(err)
	}
	own, secret := filepath.Join(root, "own"), filepath.Join(root, "secret")
	for path, text := range map[string]string{own: "last words", secret: "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := simPod(sample("a"))
	in := s.input(pod)
	in.Setup = plainSetup{mounts: []criconfig.Mount{{HostPath: own, ContainerPath: "/dev/termination-log"}}}
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	a := s.wantContainer(pod, "a", observed.Running, 0)
	resp, err := s.CRI.ContainerStatus(t.Context(), a.ID, false)
	if err != nil || len(resp.GetStatus().GetMounts()) != 1 || resp.GetStatus().GetMounts()[0].GetHostPath() != own {
		t.Errorf("mounts %v, error %v; want the pod's own", resp.GetStatus().GetMounts(), err)
	}
	s.exit(pod, "a", 1)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "last words" {
		t.Errorf("message %q; want what the pod has mounted", got)
	}
	if err := os.Rename(secret, filepath.Join(root, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "elsewhere"), own); err != nil {
		t.Fatal(err)
	}
	s.Runtime = s.restarted()
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; strings.Contains(got, "secret") || !strings.Contains(got, "can't be read") {
		t.Errorf("message %q; want an error, as the path has become a link", got)
	}
}

// A part of a volume is in the pods' directory, to which a link may lead.
func TestTerminationMessageInASubPath(t *testing.T) {
	s := newMessageSim(t)
	volumes, linked := filepath.Join(s.root, "volumes"), filepath.Join(s.root, "linked")
	if err := os.MkdirAll(volumes, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(volumes, linked); err != nil {
		t.Fatal(err)
	}
	s.with(func(c *Config) { c.PodDirs.Current = linked })
	own := filepath.Join(linked, "own")
	if err := os.WriteFile(own, []byte("last words"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := simPod(sample("a"))
	in := s.input(pod)
	in.Setup = plainSetup{mounts: []criconfig.Mount{{HostPath: own, ContainerPath: "/dev/termination-log"}}}
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	s.exit(pod, "a", 1)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "last words" {
		t.Errorf("message %q; want what the pod has mounted", got)
	}
}

// A message in a subPath of a volume is read with a time-out, and takes a place: its file system may not answer. The
// container's own message file takes no place.
func TestTerminationMessageInASubPathIsBounded(t *testing.T) {
	s := newMessageSim(t)
	mounted, pod, other := filepath.Join(s.root, "volumes", "part"), simPod(sample("a")), simPod(sample("a", "write", "/dev/termination-log", "own words"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(mounted), 0o750), os.WriteFile(mounted, []byte("last words"), 0o600)); err != nil {
		t.Fatal(err)
	}
	in := s.input(pod)
	in.Setup = plainSetup{mounts: []criconfig.Mount{{HostPath: mounted, ContainerPath: "/dev/termination-log"}}}
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	s.waits = nodefs.New(nodefs.Config{Places: 1})
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = nodefs.Look(t.Context(), s.waits, nodefs.Pod{UID: "other"}, "/away", func() (int, error) {
			close(began)
			<-end
			return 0, nil
		}, nil)
	}()
	<-began
	s.exit(pod, "a", 1)
	if got, want := s.wantContainer(pod, "a", observed.Exited, 0).Message, "can't be looked at"; !strings.Contains(got, want) {
		t.Errorf("with no place left the message is %q; want %q", got, want)
	}
	other.UID, other.Name = "other", "other"
	s.mustSync(other)
	if got := s.wantContainer(other, "a", observed.Exited, 0).Message; got != "own words" {
		t.Errorf("the message in the container's own file is %q", got)
	}
	close(end)
	<-ended
}

// TestTerminationMessageOfAnEarlierVersion: the message of a pod whose directory is beneath --root-dir is read there, and a container
// that starts later in the pod has its file there too.
func TestTerminationMessageOfAnEarlierVersion(t *testing.T) {
	s := newMessageSim(t)
	pod := simPod(sample("a", "write", "/dev/termination-log", "out of coffee"))
	s.mustSync(pod)
	before := filepath.Join(s.root, "volumes")
	s.with(func(c *Config) {
		c.PodDirs = kubeletdir.Pods{Current: filepath.Join(s.root, "kubelet"), Previous: before}
	})
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "out of coffee" {
		t.Errorf("message %q", got)
	}
	if got, want := s.messageFile(pod.UID, "a", 1), filepath.Join(before, string(pod.UID), "containers", "a", "00000001"); got != want {
		t.Errorf("the next file is %s; want %s", got, want)
	}
	if got, want := s.messageFile("other", "a", 0), filepath.Join(s.root, "kubelet", "other", "containers", "a", "00000000"); got != want {
		t.Errorf("the file of a new pod is %s; want %s", got, want)
	}
}
