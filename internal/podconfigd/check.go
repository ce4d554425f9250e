package podconfigd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// checkStart returns the errors that would keep podconfigd from starting: in files that configure access, and in
// sources that can't be made as configured. A source whose files are missing or invalid starts without its pods; with
// all set that is an error too. Nothing is connected.
func (o *Options) checkStart(all bool) error {
	b := &builder{id: "none", node: o.node, fileQuietPeriod: o.fileQuietPeriod, log: slog.New(slog.DiscardHandler)}
	mistakes := []error{o.checkAccess()}
	for _, entry := range o.plan.Sources {
		// Errors in its files are known already.
		fromFile := entry.API != nil && entry.API.Kubeconfig != ""
		switch {
		case entry.Problem != nil && all:
			mistakes = append(mistakes, entry.Problem)
		case entry.Problem != nil || fromFile && !all:
		default:
			if _, err := b.build(entry); err != nil && (all || !lacksFile(entry, err)) {
				mistakes = append(mistakes, err)
			}
		}
	}
	return errors.Join(mistakes...)
}

func (o *Options) checkAccess() error {
	who, _, err := o.Access()
	if err == nil {
		_, err = access.New(who)
	}
	return err
}

// printPlan prints the plan for --check-config: a line for each source, in order of priority. It shows no
// credentials.
func printPlan(w io.Writer, o *Options) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRIORITY\tSOURCE\tLOCATION\tSETTINGS")
	for i, s := range o.plan.Sources {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", i+1, s.Name, s.Location, strings.Join(settings(s), "; "))
	}
	for i, s := range o.extra {
		fmt.Fprintf(table, "%d\t%s\t%s\t\n", len(o.plan.Sources)+i+1, s.Name, s.Location)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	fmt.Fprintf(w, "node: %s\n", o.node)
	if len(o.plan.Ignored) > 0 {
		fmt.Fprintf(w, "ignored: %s\n", strings.Join(o.plan.Ignored, ", "))
	}
	if len(o.plan.Podexecd) > 0 {
		fmt.Fprintf(w, "podexecd's: %s\n", strings.Join(o.plan.Podexecd, ", "))
	}
	for _, warning := range o.plan.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return nil
}

// settings are the settings of a source that help to find a mistake. Of headers only the names are shown.
func settings(s sourceconfig.Source) []string {
	var out []string
	every := func(d time.Duration, strict bool) {
		out = append(out, "every "+d.String())
		if strict {
			out = append(out, "strict")
		}
	}
	files := func(f sourceconfig.TLSFiles) {
		for _, file := range []struct{ what, path string }{{"CA", f.CAFile}, {"certificate", f.CertFile}, {"key", f.KeyFile}} {
			if file.path != "" {
				out = append(out, file.what+" "+file.path)
			}
		}
	}
	nodes := func(names []string) {
		if names != nil {
			out = append(out, "nodes "+strings.Join(names, ","))
		}
	}
	switch {
	case s.File != nil:
		every(s.File.CheckFrequency, s.File.Strict)
	case s.HTTP != nil:
		every(s.HTTP.CheckFrequency, s.HTTP.Strict)
		if len(s.HTTP.Headers) > 0 {
			out = append(out, "headers "+strings.Join(slices.Sorted(maps.Keys(s.HTTP.Headers)), ","))
		}
		files(s.HTTP.TLSFiles)
	case s.OCI != nil:
		every(s.OCI.Interval, s.OCI.Strict)
		out = append(out, artifactSettings(s.OCI)...)
	case s.Relay != nil:
		files(s.Relay.TLSFiles)
		nodes(s.Relay.Nodes)
	case s.API != nil:
		if s.API.Kubeconfig != "" {
			out = append(out, "kubeconfig "+s.API.Kubeconfig)
		}
		if s.API.ClusterUID != "" {
			out = append(out, "cluster "+string(s.API.ClusterUID))
		}
		nodes(s.API.Nodes)
		if s.API.Shards > 1 {
			out = append(out, fmt.Sprintf("shard %d of %d", s.API.Shard, s.API.Shards))
		}
	}
	return out
}

// artifactSettings are those of an artifact, beside its interval.
func artifactSettings(s *sourceconfig.OCISettings) []string {
	var out []string
	for _, file := range []struct{ what, path string }{{"signed by", s.PublicKeyFile}, {"CA", s.CAFile}, {"credentials", s.CredentialsFile}} {
		if file.path != "" {
			out = append(out, file.what+" "+file.path)
		}
	}
	if s.TokenHost != "" {
		out = append(out, "token host "+s.TokenHost)
	}
	for _, flag := range []struct {
		what string
		set  bool
	}{{"unsigned", s.PublicKeyFile == ""}, {"monotonic", s.Monotonic}, {"any repository", s.AnyRepository}, {"insecure", s.Insecure}} {
		if flag.set {
			out = append(out, flag.what)
		}
	}
	return out
}
