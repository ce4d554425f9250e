package kubeletapi

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// pods serves /pods: the node's desired pods, each with its current status. A pod that was only found running isn't
// listed, because its spec is unknown.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	var all []podview.Pod
	if s.cfg.Pods != nil {
		all = slices.DeleteFunc(s.cfg.Pods.All(), func(p podview.Pod) bool { return p.Object == nil })
	}
	slices.SortFunc(all, func(a, b podview.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	s.writeList(w, len(all), func(i int) *v1.Pod {
		pod := *all[i].Object
		if status := all[i].Status; status != nil {
			pod.Status = *status
		}
		return &pod
	})
}

// runningPods serves /runningpods: the pods of the container runtime.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	var running []*observed.Pod
	if s.cfg.Runtime != nil {
		all, err := s.cfg.Runtime.List(r.Context())
		if err != nil {
			answer(w, internal("%v", err))
			return
		}
		running = slices.DeleteFunc(all, func(p *observed.Pod) bool { return !p.Active() })
	}
	slices.SortFunc(running, func(a, b *observed.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	s.writeList(w, len(running), func(i int) *v1.Pod { return asPod(running[i]) })
}

// asPod returns the runtime's view of a pod: its running containers.
func asPod(p *observed.Pod) *v1.Pod {
	pod := &v1.Pod{}
	pod.UID, pod.Namespace, pod.Name = p.UID, p.Namespace, p.Name
	for _, c := range p.Containers {
		if c.State == observed.Running {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}

// writeList writes a v1.PodList, one pod after another: a whole list may be large.
func (s *Server) writeList(w http.ResponseWriter, n int, pod func(i int) *v1.Pod) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`); err != nil {
		return
	}
	for i := range n {
		data, err := json.Marshal(pod(i))
		if err != nil {
			// A part of the list is written: only aborting the response shows that it is incomplete.
			s.log.Error("a pod can't be written as JSON", "error", err)
			panic(http.ErrAbortHandler)
		}
		if i > 0 {
			data = append([]byte{','}, data...)
		}
		if _, err := w.Write(data); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, "]}")
}

// configuration serves /configz.
func (s *Server) configuration(w http.ResponseWriter, _ *http.Request) {
	data, err := json.Marshal(map[string]any{"kubeletconfig": s.cfg.Configuration()})
	if err != nil {
		answer(w, internal("%v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
