package containerrow

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The states of a container.
const (
	Running = "running"
	Exited  = "exited"
	Waiting = "waiting"
)

// Row is a container. It is its own document in JSON.
type Row struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	Name      string `json:"name"`
	// Type is "init", "ephemeral", or "container".
	Type string `json:"type"`
	// ID is the runtime's, without the runtime's name. Empty: there is none yet.
	ID      string `json:"id"`
	Image   string `json:"image"`
	ImageID string `json:"imageID"`
	// State is Running, Exited or Waiting.
	State    string `json:"state"`
	Restarts int32  `json:"restarts"`
	// ExitCode and Finished are those of an exited container.
	ExitCode *int32     `json:"exitCode"`
	Started  *time.Time `json:"started"`
	Finished *time.Time `json:"finished"`
	Reason   string     `json:"reason"`
	Message  string     `json:"message"`
}

// Of returns the containers of a pod, in the order in which they start.
func Of(ref *podconfigv1.PodRef, status *corev1.PodStatus) []Row {
	var rows []Row
	for _, list := range []struct {
		kind     string
		statuses []corev1.ContainerStatus
	}{{"init", status.InitContainerStatuses}, {"container", status.ContainerStatuses}, {"ephemeral", status.EphemeralContainerStatuses}} {
		for i := range list.statuses {
			row := of(&list.statuses[i])
			row.Namespace, row.Pod, row.PodUID, row.Type = ref.GetNamespace(), ref.GetName(), ref.GetUid(), list.kind
			rows = append(rows, row)
		}
	}
	return rows
}

func of(c *corev1.ContainerStatus) Row {
	row := Row{Name: c.Name, ID: c.ContainerID, Image: c.Image, ImageID: c.ImageID, Restarts: c.RestartCount, State: Waiting}
	if _, id, ok := strings.Cut(c.ContainerID, "://"); ok {
		row.ID = id
	}
	switch s := c.State; {
	case s.Running != nil:
		row.State = Running
		row.Started = timeOf(s.Running.StartedAt.Time)
	case s.Terminated != nil:
		row.State = Exited
		row.ExitCode, row.Reason, row.Message = &s.Terminated.ExitCode, s.Terminated.Reason, s.Terminated.Message
		row.Started, row.Finished = timeOf(s.Terminated.StartedAt.Time), timeOf(s.Terminated.FinishedAt.Time)
	case s.Waiting != nil:
		row.Reason, row.Message = s.Waiting.Reason, s.Waiting.Message
	}
	return row
}

// timeOf returns nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Status returns the state in podman's words: "Up 5m", "Exited (1) 2m ago", or "Waiting: " and the reason.
func (r Row) Status(now time.Time) string {
	switch {
	case r.State == Running && r.Started == nil:
		return "Up"
	case r.State == Running:
		return "Up " + duration.HumanDuration(now.Sub(*r.Started))
	case r.State == Exited && r.Finished == nil:
		return fmt.Sprintf("Exited (%d)", *r.ExitCode)
	case r.State == Exited:
		return fmt.Sprintf("Exited (%d) %s ago", *r.ExitCode, duration.HumanDuration(now.Sub(*r.Finished)))
	case r.Reason != "":
		return "Waiting: " + r.Reason
	}
	return "Waiting"
}

// ShortID returns the start of the ID, as long as podman's.
func (r Row) ShortID() string {
	const length = 12
	if len(r.ID) > length {
		return strings.ToValidUTF8(r.ID[:length], "")
	}
	return r.ID
}
