package runtime

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// adopting returns a sim whose Runtime adopts a kubelet's pods.
func adopting(t *testing.T) *sim {
	t.Helper()
	s := newSim(t)
	s.change = func(cfg *Config) { cfg.AdoptKubelet, cfg.PodDirs.Current = true, filepath.Join(s.root, "kubelet") }
	s.Runtime = s.restarted()
	return s
}

// directories creates the directories that the kubelet creates for a pod.
func (s *sim) directories(namespace, name string, uid types.UID) {
	s.t.Helper()
	for _, dir := range []string{
		filepath.Join(s.root, "kubelet", string(uid)), podmeta.LogDir(filepath.Join(s.root, "pods"), namespace, name, uid),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
}

// unmarked starts a pod with these labels and annotations past the Runtime, as another client does.
func (s *sim) unmarked(labels, annotations map[string]string) (sandbox, container string) {
	s.t.Helper()
	pod := simPod(sample("a"))
	config, err := criconfig.SandboxConfig(criconfig.SandboxInput{Pod: pod, Agent: "x"})
	if err != nil {
		s.t.Fatal(err)
	}
	config.LogDirectory, config.Labels, config.Annotations = "", labels, annotations
	c, err := criconfig.ContainerConfig(criconfig.ContainerInput{
		Pod: pod, Container: &pod.Spec.Containers[0], Attempt: 3, ImageRef: "localhost/sample:1", Agent: "x",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	delete(c.Annotations, podmeta.AgentAnnotation)
	c.Labels = maps.Clone(labels)
	c.Labels[podmeta.ContainerNameLabel] = "a"
	if sandbox, err = s.CRI.RunPodSandbox(s.t.Context(), config, ""); err != nil {
		s.t.Fatal(err)
	}
	if container, err = s.CRI.CreateContainer(s.t.Context(), sandbox, c, config); err != nil {
		s.t.Fatal(err)
	}
	if err := s.CRI.StartContainer(s.t.Context(), container); err != nil {
		s.t.Fatal(err)
	}
	return sandbox, container
}

// A kubelet's pod is adopted, and its container goes on: nothing is created, and nothing stopped.
func TestAdoptedPodGoesOn(t *testing.T) {
	s := adopting(t)
	pod := simPod(sample("a"))
	s.directories(pod.Namespace, pod.Name, pod.UID)
	sandbox, container := s.unmarked(podmeta.Labels(pod), map[string]string{podmeta.SourceAnnotation: "api"})
	for range 2 { // The second one is the Runtime of a podexecd that was killed after the first sync.
		has, err := s.Status(t.Context(), pod.UID)
		if err != nil {
			t.Fatal(err)
		}
		if len(has.Sandboxes) != 1 || has.Sandboxes[0].ID != sandbox || len(has.Containers) != 1 || has.Source != "api" {
			t.Fatalf("it has %+v", has)
		}
		c := has.Containers[0]
		if c.ID != container || c.State != observed.Running || c.Attempt != 3 || !criconfig.SameContainer(&pod.Spec.Containers[0], c.Hash) {
			t.Errorf("the container is %+v", c)
		}
		s.Runtime = s.restarted()
	}
}

// What can't be verified isn't adopted.
func TestForgedLabels(t *testing.T) {
	pod := simPod(sample("a"))
	with := func(key, value string) map[string]string {
		labels := podmeta.Labels(pod)
		labels[key] = value
		return labels
	}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		// without has no directories.
		without bool
	}{
		"no directories":                   {labels: podmeta.Labels(pod), without: true},
		"another agent's mark":             {labels: podmeta.Labels(pod), annotations: map[string]string{podmeta.AgentAnnotation: "you"}},
		"an empty mark":                    {labels: podmeta.Labels(pod), annotations: map[string]string{podmeta.AgentAnnotation: ""}},
		"a UID with a path":                {labels: with(podmeta.PodUIDLabel, "../kubelet/"+string(pod.UID))},
		"no UID":                           {labels: with(podmeta.PodUIDLabel, "")},
		"a UID that is the parent":         {labels: with(podmeta.PodUIDLabel, "..")},
		"the UID of another namespace":     {labels: with(podmeta.PodNamespaceLabel, "other")},
		"the UID of another pod":           {labels: with(podmeta.PodNameLabel, "other")},
		"a namespace with a path":          {labels: with(podmeta.PodNamespaceLabel, "../pods/"+pod.Namespace)},
		"a name with a path":               {labels: with(podmeta.PodNameLabel, "x/../"+pod.Name)},
		"no labels of a pod of Kubernetes": {labels: map[string]string{"app": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := adopting(t)
			if !test.without {
				s.directories(pod.Namespace, pod.Name, pod.UID)
			}
			if s.mine(test.labels, test.annotations) {
				t.Error("it is adopted")
			}
		})
	}
}

// A pod that was adopted stays so after its directory is removed; a second name with its UID is another client's.
func TestAdoptedUntilItsSandboxIsRemoved(t *testing.T) {
	s := adopting(t)
	pod := simPod(sample("a"))
	s.directories(pod.Namespace, pod.Name, pod.UID)
	if !s.mine(podmeta.Labels(pod), nil) {
		t.Fatal("it isn't adopted")
	}
	if err := os.RemoveAll(filepath.Join(s.root, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if !s.mine(podmeta.Labels(pod), nil) {
		t.Error("its exited sandbox is left to the runtime")
	}
	other := podmeta.Labels(pod)
	other[podmeta.PodNameLabel] = "other"
	s.directories(pod.Namespace, "other", pod.UID)
	if s.mine(other, nil) {
		t.Error("a second name is adopted")
	}
}

// A link in place of a directory proves nothing.
func TestLinkIsNoDirectory(t *testing.T) {
	s := adopting(t)
	pod := simPod(sample("a"))
	s.directories(pod.Namespace, pod.Name, "elsewhere")
	s.directories(pod.Namespace, pod.Name, pod.UID)
	dir := filepath.Join(s.root, "kubelet", string(pod.UID))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", dir); err != nil {
		t.Fatal(err)
	}
	if s.mine(podmeta.Labels(pod), nil) {
		t.Error("it is adopted")
	}
}

// Without adoption, the running pods of a kubelet with this agent's directories are named, and no others.
func TestNotAdopted(t *testing.T) {
	s := adopting(t)
	pod := simPod(sample("a"))
	sandbox, _ := s.unmarked(podmeta.Labels(pod), nil)
	named := func() []string {
		t.Helper()
		names, err := s.NotAdopted(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if names := named(); len(names) != 0 {
		t.Errorf("with adoption: %q", names)
	}
	s.change = func(cfg *Config) { cfg.PodDirs.Current = filepath.Join(s.root, "kubelet") }
	s.Runtime = s.restarted()
	if names := named(); len(names) != 0 {
		t.Errorf("another client's: %q", names)
	}
	s.directories(pod.Namespace, pod.Name, pod.UID)
	if names := named(); len(names) != 1 || names[0] != podmeta.LogName(pod) {
		t.Errorf("it is %q", names)
	}
	if err := s.CRI.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	boxes, err := s.CRI.ListPodSandbox(t.Context(), nil)
	if err != nil || len(boxes) != 1 || boxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Fatal(boxes, err)
	}
	if names := named(); len(names) != 0 {
		t.Errorf("it has ended: %q", names)
	}
}
