package podctl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// noteDefaulted prints, in kubectl's words, which of several containers podexecd has chosen. Each line ends in end: a
// terminal in raw mode needs a carriage return too.
func (t *tool) noteDefaulted(d *podexecv1.DefaultedContainer, end string) {
	if d == nil {
		return
	}
	if unknown := d.GetUnknownDefault(); unknown != "" {
		_, _ = io.WriteString(t.Stderr, render.Escape(fmt.Sprintf("Default container name %q not found in the pod", unknown))+end)
	}
	all := slices.Clone(d.GetContainers())
	for _, name := range d.GetInitContainers() {
		all = append(all, name+" (init)")
	}
	for _, name := range d.GetEphemeralContainers() {
		all = append(all, name+" (ephem)")
	}
	_, _ = io.WriteString(t.Stderr, render.Escape(fmt.Sprintf("Defaulted container %q out of: %s", d.GetName(), strings.Join(all, ", ")))+end)
}
