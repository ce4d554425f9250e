package podctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const diffCommandName = "diff"

// The exit codes of diff are those of kubectl diff.
const (
	exitSame    = 0
	exitDiffers = 1
	exitTrouble = 2
)

// failureCode returns the exit code of a command that fails before it asks a daemon.
func failureCode(cmd *cobra.Command) int {
	if cmd.Name() == diffCommandName {
		return exitTrouble
	}
	return exitFailed
}

// maxDiff is the maximum size of an answer in bytes: the manifests of one request, as JSON with all defaults.
const maxDiff = 32 << 20

// diffOptions are the flags of diff.
type diffOptions struct {
	source string
	at     string
	remove bool
}

func (t *tool) diffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   diffCommandName + " MANIFEST...",
		Short: "Show what manifests would change, without applying them",
		Long: `Diff asks podconfigd which ops the manifests would cause now, and which problems they have. Nothing is applied. For each pod
it prints whether the pod starts, stops, restarts or changes in place, and the difference between the pod that is desired now and
the one that would be, as diff -u does: all of a pod that starts or stops. Defaults are filled in on both sides.

A MANIFEST is a file, a directory (its .yaml, .yml and .json files) or "-" for standard input. A manifest in the directory of its
source is compared as it is; any other is compared as if it were copied there under its name, or as if it were at the path of --at.
With --remove the manifests are compared as if they were removed.

The exit code is 0 if nothing would change, 1 if something would, and 2 after an error or if a manifest is rejected.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want a file, a directory, or - for standard input")
			}
			return o.validate(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := t.runDiff(cmd.Context(), o, args)
			if code == exitSame && err == nil {
				return nil
			}
			return &exitError{code: code, err: err}
		},
	}
	cmd.Flags().StringVar(&o.source, "source", "file", "the `name` of the source that would read the manifests")
	cmd.Flags().StringVar(&o.at, "at", "", "the absolute `path` that the manifest would have; for one MANIFEST only")
	cmd.Flags().BoolVar(&o.remove, "remove", false, "as if the manifests were removed")
	return cmd
}

func (o diffOptions) validate(args []string) error {
	switch {
	case o.at != "" && len(args) > 1:
		return errors.New("--at is for one MANIFEST only")
	case o.at != "" && !filepath.IsAbs(o.at):
		return errors.New("--at: want an absolute path")
	}
	for _, arg := range args {
		if arg == stdinName && o.at == "" {
			return errors.New(`"-" needs --at: which path would the manifest have?`)
		}
	}
	return nil
}

// runDiff returns the exit code, and the error if the manifests couldn't be compared.
func (t *tool) runDiff(ctx context.Context, o diffOptions, args []string) (code int, err error) {
	files, err := o.manifestFiles(args)
	if err != nil {
		return exitTrouble, err
	}
	// There is no time limit, as a user may be typing the manifest.
	contents, err := t.readManifests(ctx, o, files)
	if err != nil {
		return exitTrouble, err
	}
	resp, err := t.diff(ctx, o, files, contents)
	if err != nil {
		return exitTrouble, err
	}
	changes, err := t.changesOf(ctx, resp)
	if err != nil {
		return exitTrouble, err
	}
	if err := t.printDiff(resp, changes); err != nil {
		return exitTrouble, err
	}
	return diffCode(resp), nil
}

// diff asks podconfigd.
func (t *tool) diff(ctx context.Context, o diffOptions, files []string, contents [][]byte) (*podconfigv1.DiffManifestsResponse, error) {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()

	origins := []string{filepath.Clean(o.at)}
	if o.at == "" {
		source, err := t.sourcePath(ctx, conn, o.source)
		if err != nil {
			return nil, err
		}
		if origins, err = t.originsOf(source, files); err != nil {
			return nil, err
		}
	}
	req := &podconfigv1.DiffManifestsRequest{Source: o.source, Format: podconfigv1.PodFormat_POD_FORMAT_JSON}
	if t.output.IsTable() {
		req.Format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF // a few fields of it are shown
	}
	for i, content := range contents {
		req.Manifests = append(req.Manifests, &podconfigv1.ManifestInput{Origin: origins[i], Content: content, Remove: o.remove})
	}
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).DiffManifests(ctx, req, grpc.MaxCallRecvMsgSize(maxDiff))
	if err != nil {
		return nil, conn.explain(err)
	}
	return resp, nil
}

// diffCode returns the exit code. A rejected manifest is an error whatever else would change.
func diffCode(resp *podconfigv1.DiffManifestsResponse) int {
	for _, f := range resp.GetFindings() {
		if f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR {
			return exitTrouble
		}
	}
	if len(resp.GetUpdates()) > 0 {
		return exitDiffers
	}
	return exitSame
}

// changesOf asks podconfigd for the pods that would change, as they are desired now.
func (t *tool) changesOf(ctx context.Context, resp *podconfigv1.DiffManifestsResponse) ([]*podChange, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	return t.changes(ctx, resp.GetUpdates())
}

func (t *tool) printDiff(resp *podconfigv1.DiffManifestsResponse, changes []*podChange) error {
	if !t.output.IsTable() {
		doc, err := newDiffDocument(resp, changes)
		if err != nil {
			return err
		}
		return t.documents("").Print(doc)
	}
	if err := t.printDiffOps(resp.GetUpdates()); err != nil {
		return err
	}
	if err := t.printChanges(changes); err != nil || len(resp.GetFindings()) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	findings := render.NewTable(t.Stdout, "SEVERITY", "ORIGIN", "FIELD", "MESSAGE")
	for _, f := range resp.GetFindings() {
		findings.Row(severityText(f.GetSeverity()), originText(f), f.GetField(), findingText(f))
	}
	return findings.Flush()
}

// printDiffOps prints one line for each pod of an op.
func (t *tool) printDiffOps(updates []*podconfigv1.PodUpdate) error {
	if len(updates) == 0 {
		if _, err := fmt.Fprintln(t.Stdout, "nothing would change"); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	wide := t.output == render.WideFormat
	ops := render.NewTable(t.Stdout, "OP", "SOURCE", "POD", "UID", "CONTAINERS")
	for _, u := range updates {
		op := enumWord(u.GetOp(), "POD_OPERATION_", "UNSPECIFIED")
		if len(u.GetPods()) == 0 {
			ops.Row(op, u.GetSource(), "", "", "no pods")
		}
		for _, pod := range u.GetPods() {
			ops.Row(op, cmp.Or(pod.GetSource(), u.GetSource()), podsummary.FullName(pod.GetRef()),
				shortened(pod.GetRef().GetUid(), wide), containersText(pod, wide))
		}
	}
	return ops.Flush()
}
