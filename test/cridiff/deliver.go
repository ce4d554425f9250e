package cridiff

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deliver gives the agent the pods: as manifests, or through the API server.
func (s *Site) deliver(ctx context.Context, batch []*v1.Pod) error {
	for _, pod := range batch {
		if s.api != nil {
			if err := s.api.create(ctx, pod); err != nil {
				return err
			}
			continue
		}
		text, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		temp := s.path("manifests", ".new")
		if err := os.WriteFile(temp, text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(temp, s.manifest(pod)); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes the pods from the agent.
func (s *Site) withdraw(ctx context.Context, batch []*v1.Pod) error {
	for _, pod := range batch {
		if s.api != nil {
			if err := s.api.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			continue
		}
		if err := os.Remove(s.manifest(pod)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) manifest(pod *v1.Pod) string {
	return filepath.Join(s.Dir, "manifests", string(pod.UID)+".json")
}

// known returns the pods that an agent, the process of that ID, knows, with their status, by the UID of the pod that was
// given. Of an API server's pods the agent has the status that it was given back, so the server is asked.
func (s *Site) known(ctx context.Context, pid int) (map[types.UID]*v1.Pod, error) {
	if s.api != nil {
		return s.api.pods(ctx)
	}
	return nodeAPI(pid).pods(ctx)
}

// replacer replaces paths that are the agent's own, and UIDs that an API server made by those of the pods that were given.
func (s *Site) replacer() *strings.Replacer {
	pairs := []string{s.path("root"), "ROOT", s.Dir, "DIR"}
	if s.api != nil {
		pairs = append(pairs, s.api.uids...)
	}
	return strings.NewReplacer(pairs...)
}
