package stream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// checkpoint writes the state of a running container to an archive, and sends its path.
func (h *Handler) checkpoint(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	if h.cfg.CheckpointsDir == "" {
		return notFound("this node makes no checkpoints")
	}
	name := r.PathValue("container")
	if _, ok := containerOf(pod, name); !ok {
		return notFound("container %v does not exist", name)
	}
	timeout, err := checkpointTimeout(r.URL.Query()["timeout"])
	if err != nil {
		return err
	}
	_, id, err := running(r, pod)
	if err != nil {
		return err
	}
	// An archive contains all of the container's memory.
	if err := os.MkdirAll(h.cfg.CheckpointsDir, 0o700); err != nil {
		return fmt.Errorf("create the directory of checkpoints: %w", err)
	}
	file := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, name, time.Now().Format(time.RFC3339))
	path := filepath.Join(h.cfg.CheckpointsDir, file)
	if err := h.cfg.Runtime.Checkpoint(r.Context(), id, path, timeout); err != nil {
		return internal("checkpointing of %v/%v/%v failed (%v)", pod.Namespace, pod.Name, name, err)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(struct {
		Items []string `json:"items"`
	}{[]string{path}})
}

// checkpointTimeout returns the last given value, in seconds. Zero: the runtime's default.
func checkpointTimeout(given []string) (time.Duration, error) {
	if len(given) == 0 {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(given[len(given)-1], 10, 32)
	if err != nil || seconds < 0 {
		return 0, badRequest("cannot parse value of timeout parameter")
	}
	return time.Duration(seconds) * time.Second, nil
}
