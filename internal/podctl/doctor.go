package podctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/doctor"
	"github.com/podstream/podstream/internal/podctl/render"
)

func (t *tool) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [-- PODEXECD-FLAG...]",
		Short: "Find problems that keep this node from running pods, and advise on each",
		Long: `Doctor checks the daemons and their sockets, the stream between them, the container runtime, its network, cgroup driver and features,
the units and mounts of the processes, the kernel's cgroups, swap, settings and inotify, the disk, the clock, and, on a node of a
cluster, credentials and certificates. It changes nothing. It reads podexecd's flags from the process that listens on its socket; if
podexecd isn't running, give the flags that it will be started with after "--".
The exit code is 1 if a check fails.`,
		RunE: func(cmd *cobra.Command, args []string) error { return t.runDoctor(cmd.Context(), args) },
	}
}

func (t *tool) runDoctor(ctx context.Context, flags []string) error {
	podexec, err := t.findPodexec(flags)
	if err != nil {
		return err
	}
	podconfigd, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer podconfigd.Close()
	podexecd, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer podexecd.Close()
	findings := doctor.Examine(ctx, doctor.Config{
		Podconfigd: doctor.Connection{ClientConnInterface: podconfigd, Explain: podconfigd.explain},
		Podexecd:   doctor.Connection{ClientConnInterface: podexecd, Explain: podexecd.explain},
		Version:    t.Version, Podexec: podexec, Patience: t.requestTimeout, Now: t.Clock.Now,
	})
	if err := t.printFindings(findings); err != nil {
		return err
	}
	if doctor.Worst(findings) == doctor.Failed {
		return &exitError{code: exitFailed}
	}
	return nil
}

// findPodexec finds podexecd's settings.
func (t *tool) findPodexec(flags []string) (*doctor.Podexec, error) {
	if len(flags) == 0 && t.podexecd.endpoint.address == "" {
		running, err := doctor.ReadPodexec(t.podexecd.endpoint.path)
		if err == nil {
			return running, nil
		}
		t.note("podexecd's flags aren't known, so its defaults are checked: %v", err)
		flags = []string{"--listen=unix://" + t.podexecd.endpoint.path}
	}
	podexec, err := doctor.ParsePodexec(flags, ".")
	if err != nil {
		return nil, fmt.Errorf("podexecd's flags: %w", err)
	}
	return podexec, nil
}

func (t *tool) printFindings(findings []doctor.Finding) error {
	if !t.output.IsTable() {
		return t.documents("").Print(struct {
			Findings []doctor.Finding `json:"findings"`
		}{findings})
	}
	overview := render.NewTable(t.Stdout, "CHECK", "STATE", "FOUND")
	var advice []string
	for _, f := range findings {
		overview.Row(f.Check, string(f.State), f.Found)
		if f.Advice != "" {
			advice = append(advice, "  "+render.Escape(fmt.Sprintf("%s: %s", f.Check, f.Advice))+"\n")
		}
	}
	if err := overview.Flush(); err != nil {
		return err
	}
	if len(advice) > 0 {
		_, err := fmt.Fprintf(t.Stdout, "\nWhat to do:\n%s", strings.Join(advice, ""))
		return err
	}
	return nil
}
