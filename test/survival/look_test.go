package survival

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The labels by which the runtime identifies pods, as the kubelet sets them.
const (
	uidLabel       = "io.kubernetes.pod.uid"
	podNameLabel   = "io.kubernetes.pod.name"
	containerLabel = "io.kubernetes.container.name"
)

// look observes the site. With closely, it also calls podexecd and reads the traces on the node.
func (s *site) look(ctx context.Context, closely bool) (*Look, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	look := &Look{At: time.Now()}
	// podexecd is called first: its pods can't have ended before the status that it reports.
	if closely {
		if err := s.askAgent(ctx, look); err != nil {
			return nil, err
		}
		// Traces are read before the runtime's lists: a trace whose ID is missing in the lists is then left
		// over.
		if err := s.traces(look); err != nil {
			return nil, err
		}
	}
	err := s.askRuntime(ctx, look)
	look.Until = time.Now()
	return look, errors.Join(err, s.markForgotten(look))
}

// markForgotten marks the mounts of sandboxes that aren't listed, and that containerd 2 failed to clean up when their
// RunPodSandbox was cut short. It then removes such a sandbox from its lists without removing the mount and the shim,
// until it is restarted (containerd issue 12344). Nothing but its log shows that; no CRI call changes it.
func (s *site) markForgotten(look *Look) error {
	var text []byte
	for i := range look.Traces {
		t := &look.Traces[i]
		listed := slices.ContainsFunc(look.Sandboxes, func(b Sandbox) bool { return b.ID == t.ID }) ||
			slices.ContainsFunc(look.Containers, func(c CRIContainer) bool { return c.ID == t.ID })
		if !t.Own || listed || !strings.HasPrefix(t.Path, s.node.Dir()+"/") {
			continue
		}
		if text == nil {
			var err error
			if text, err = os.ReadFile(s.node.Runtime().LogPath); err != nil {
				return err
			}
		}
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte("marking sandbox state as SANDBOX_UNKNOWN")) && bytes.Contains(line, []byte(t.ID)) {
				t.Forgotten = true
			}
		}
	}
	return nil
}

func (s *site) askAgent(ctx context.Context, look *Look) error {
	look.Phases = map[string]v1.PodPhase{}
	for token := ""; ; {
		page, err := s.exec.ListPods(ctx, &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, PageToken: token})
		if err != nil {
			return err
		}
		for _, p := range page.GetPods() {
			look.Phases[p.GetRef().GetUid()] = v1.PodPhase(p.GetPhase())
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

func (s *site) askRuntime(ctx context.Context, look *Look) error {
	sandboxes, err := s.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	containers, err := s.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range sandboxes.GetItems() {
		if strings.HasSuffix(b.GetLabels()[podNameLabel], "-"+s.name) {
			s.ids[b.GetId()] = b.GetLabels()[uidLabel]
			look.Sandboxes = append(look.Sandboxes, Sandbox{
				ID: b.GetId(), UID: b.GetLabels()[uidLabel], Ready: b.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
			})
		}
	}
	for _, c := range containers.GetContainers() {
		if strings.HasSuffix(c.GetLabels()[podNameLabel], "-"+s.name) {
			s.ids[c.GetId()] = c.GetLabels()[uidLabel]
			look.Containers = append(look.Containers, CRIContainer{
				ID: c.GetId(), UID: c.GetLabels()[uidLabel], Name: c.GetLabels()[containerLabel],
				Running: c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING,
			})
		}
	}
	return nil
}

// traces finds what pods have on the disk, in the mount table and in cgroups.
func (s *site) traces(look *Look) error {
	add := func(t Trace) { look.Traces = append(look.Traces, t) }
	for _, dir := range []struct {
		path  string
		trace func(name string) Trace
	}{
		{s.path("kubelet", "pods"), func(name string) Trace { return Trace{UID: name} }},
		{s.path("log", "pods"), func(name string) Trace { return Trace{UID: uidOf(name)} }},
		{s.path("log", "containers"), func(name string) Trace {
			return Trace{UID: s.linkedPod(name), ID: strings.TrimSuffix(name[strings.LastIndexByte(name, '-')+1:], ".log")}
		}},
	} {
		entries, err := os.ReadDir(dir.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			t := dir.trace(e.Name())
			t.Path = filepath.Join(dir.path, e.Name())
			add(t)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		path := strings.Fields(line)[1]
		if rest, ok := strings.CutPrefix(path, s.path("kubelet", "pods")+"/"); ok {
			uid, _, _ := strings.Cut(rest, "/")
			add(Trace{Path: path, UID: uid})
		} else if rest, ok := strings.CutPrefix(path, s.node.Dir()+"/"); ok {
			s.addOwn(look, path, strings.Split(rest, "/"))
		}
	}
	cgroups, err := s.node.CgroupDirs()
	if err != nil {
		return err
	}
	for _, path := range cgroups {
		if !strings.Contains(path, "/"+s.podexecd.Name+"/") {
			continue // of another site
		}
		if uid, ok := strings.CutPrefix(filepath.Base(path), "pod"); ok {
			add(Trace{Path: path, UID: uid})
		} else {
			s.addOwn(look, path, []string{filepath.Base(path)})
		}
	}
	return nil
}

// uidOf returns the UID of the pod that a log directory belongs to.
func uidOf(name string) string { return name[strings.LastIndexByte(name, '_')+1:] }

// linkedPod returns the UID of the pod that a link to a log belongs to.
func (s *site) linkedPod(name string) string {
	target, err := os.Readlink(s.path("log", "containers", name))
	if err != nil {
		return "" // it was removed meanwhile
	}
	return uidOf(filepath.Base(filepath.Dir(filepath.Dir(target))))
}

// addOwn adds a trace of the runtime, if one of the words is the ID of a sandbox or container of this site.
func (s *site) addOwn(look *Look, path string, words []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(words, func(w string) bool { return s.ids[w] != "" }); i >= 0 {
		look.Traces = append(look.Traces, Trace{Path: path, UID: s.ids[words[i]], ID: words[i], Own: true})
	}
}
