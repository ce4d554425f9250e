package podctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The exit codes of diff are those of kubectl diff.
const (
	exitSame    = 0
	exitDiffers = 1
	exitTrouble = 2
)

// maxDiff is how large an answer may be: the manifests of one request, written out in JSON with all their defaults.
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
		Use:   "diff MANIFEST...",
		Short: "Show what manifests would change, without applying them",
		Long: `Diff asks podconfigd which ops the manifests would cause now, and what is wrong with them. Nothing is applied.

A MANIFEST is a file, a directory (its .yaml, .yml and .json files are meant) or "-" for standard input. A manifest that lies
in the directory of its source stands for itself; any other is compared as if it were copied there under its name, or as if
it were at the path that --at gives. With --remove the manifests are taken to be gone.

The exit code is 0 if nothing would change, 1 if something would, and 2 if that couldn't be told or a manifest is rejected.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MinimumNArgs(1)(cmd, args); err != nil {
				return err
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

// runDiff returns the exit code; what kept it from telling is the error.
func (t *tool) runDiff(ctx context.Context, o diffOptions, args []string) (code int, err error) {
	files, err := o.manifestFiles(args)
	if err != nil {
		return exitTrouble, err
	}
	// This has no time limit: somebody may be typing the manifest.
	contents, err := t.readManifests(ctx, o, files)
	if err != nil {
		return exitTrouble, err
	}
	resp, err := t.diff(ctx, o, files, contents)
	if err != nil {
		return exitTrouble, err
	}
	if err := t.printDiff(resp); err != nil {
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
	if t.output.isTable() {
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

// diffCode is the answer in a number. A rejected manifest is trouble whatever else would change: it isn't what was meant.
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

func (t *tool) printDiff(resp *podconfigv1.DiffManifestsResponse) error {
	if !t.output.isTable() {
		return (&documents{out: t.Stdout, output: t.output}).print(protoValue{resp})
	}
	if err := t.printDiffOps(resp.GetUpdates()); err != nil || len(resp.GetFindings()) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	findings := newTable(t.Stdout, "SEVERITY", "ORIGIN", "FIELD", "MESSAGE")
	for _, f := range resp.GetFindings() {
		findings.row(severityText(f.GetSeverity()), originText(f), f.GetField(), findingText(f))
	}
	return findings.flush()
}

// printDiffOps prints one line for each pod of an op.
func (t *tool) printDiffOps(updates []*podconfigv1.PodUpdate) error {
	if len(updates) == 0 {
		if _, err := fmt.Fprintln(t.Stdout, "nothing would change"); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	wide := t.output == outputWide
	ops := newTable(t.Stdout, "OP", "SOURCE", "POD", "UID", "CONTAINERS")
	for _, u := range updates {
		op := enumWord(u.GetOp(), "POD_OPERATION_", "UNSPECIFIED")
		if len(u.GetPods()) == 0 {
			ops.row(op, u.GetSource(), "", "", "no pods")
		}
		for _, pod := range u.GetPods() {
			ops.row(op, cmp.Or(pod.GetSource(), u.GetSource()), fullName(pod.GetRef()),
				shortened(pod.GetRef().GetUid(), wide), containersText(pod, wide))
		}
	}
	return ops.flush()
}
