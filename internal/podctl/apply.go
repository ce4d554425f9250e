package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writeTime is how long podconfigd may take for a write, in addition to --request-timeout: it waits for its disk, and for
// the publication.
const writeTime = 35 * time.Second

// applyOptions are the flags of apply.
type applyOptions struct {
	manifestOptions
	set               string
	prune, allowEmpty bool
	diff              bool
	dryRun            dryRun
	wait              effectWait
}

func (t *tool) applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Write pods to podconfigd's source \"applied\"",
		Long: `Apply has podconfigd write the pods, ConfigMaps and Secrets of the manifests to its own store: all of them, or none. The source is
"applied". podconfigd must run with --applied, and the caller must be root, podconfigd's own user, or have the role deployer.

Apply first asks what would change, and then writes only if none of these documents has changed meanwhile; otherwise it fails with
ABORTED. --diff prints the difference, as podctl diff does. A pod that another source has, such as a file in
/etc/podstream/manifests, isn't replaced: the error names its place.

A set groups the documents of one caller. --prune removes those that the same caller applied under the same set and that aren't
among the manifests.

A FILE is a file, a directory (its .yaml, .yml and .json files; with -R those of the directories in it too), "-", or a URL (https or
http). podctl itself gets the manifests of a URL, with your rights, in 30 s at most; it follows no redirect to another scheme.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArguments(cmd, args); err != nil {
				return err
			}
			return o.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runApply(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.addFlags(flags)
	flags.StringVar(&o.set, "set", "default", "the `name` of the set that the documents belong to")
	flags.BoolVar(&o.prune, "prune", false, "remove the other documents that the caller applied under this set")
	flags.BoolVar(&o.allowEmpty, "allow-empty", false, "with --prune: the set may be left without any document")
	flags.BoolVar(&o.diff, "diff", false, "print what changes, as podctl diff does")
	o.dryRun.addFlag(flags)
	o.wait.addFlags(flags, "until podexecd runs the pods, and they are ready")
	return cmd
}

func (o *applyOptions) validate() error {
	switch {
	case len(o.files) == 0 && !(o.prune && o.allowEmpty):
		return errors.New("want manifests: give -f")
	case o.allowEmpty && !o.prune:
		return errors.New("--allow-empty is for --prune")
	}
	return nil
}

func (t *tool) runApply(ctx context.Context, o applyOptions) error {
	files, err := t.readFiles(ctx, o.manifestOptions)
	if err != nil {
		return err
	}
	req := &podconfigv1.ApplyManifestsRequest{Files: files, Set: o.set, Prune: o.prune, AllowEmpty: o.allowEmpty}
	return t.apply(ctx, req, o)
}

// apply writes what a request has, after a dry run that shows the versions that it is made against.
func (t *tool) apply(ctx context.Context, req *podconfigv1.ApplyManifestsRequest, o applyOptions) error {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	planned, err := t.applyDry(ctx, conn, req)
	if err != nil {
		return err
	}
	t.noteFindings(planned.GetFindings())
	if o.diff {
		changes, err := t.changes(ctx, planned.GetUpdates())
		if err != nil {
			return err
		}
		if err := t.printChanges(changes); err != nil {
			return err
		}
	}
	if o.dryRun.on() {
		return t.printResults(planned, planned.GetResults(), o.dryRun)
	}
	if len(planned.GetResults()) == 0 {
		// Prune has found nothing to remove. A write without expectations would remove what the caller adds meanwhile.
		return t.printResults(planned, nil, noDryRun)
	}
	// The dry run has checked what the request expects already.
	req.Expected = expectations(planned.GetResults())
	resp, err := t.applyNow(ctx, conn, req)
	if err != nil {
		return err
	}
	if err := t.printResults(resp, resp.GetResults(), noDryRun); err != nil {
		return err
	}
	return t.await(ctx, o.wait, written{resp.GetResults(), resp.GetInstanceId(), resp.GetRevision()})
}

// applyDry requests what a write would change.
func (t *tool) applyDry(ctx context.Context, conn *connection, req *podconfigv1.ApplyManifestsRequest) (*podconfigv1.ApplyManifestsResponse, error) {
	ctx, cancel := t.writeContext(ctx)
	defer cancel()
	dry := &podconfigv1.ApplyManifestsRequest{
		Files: req.GetFiles(), Set: req.GetSet(), Expected: req.GetExpected(), Prune: req.GetPrune(), AllowEmpty: req.GetAllowEmpty(),
		DryRun: true, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	}
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ApplyManifests(ctx, dry, grpc.MaxCallRecvMsgSize(maxDiff))
	return resp, conn.explainWrite(err, req.GetFiles()...)
}

func (t *tool) applyNow(ctx context.Context, conn *connection, req *podconfigv1.ApplyManifestsRequest) (*podconfigv1.ApplyManifestsResponse, error) {
	ctx, cancel := t.writeContext(ctx)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ApplyManifests(ctx, req, grpc.MaxCallRecvMsgSize(maxDiff))
	return resp, conn.explainWrite(err, req.GetFiles()...)
}

// writeContext limits the time of a write.
func (t *tool) writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.requestTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, t.requestTimeout+writeTime)
}

// expectations are the versions that a dry run has found.
func expectations(results []*podconfigv1.ManifestResult) []*podconfigv1.ManifestExpectation {
	var out []*podconfigv1.ManifestExpectation
	for _, r := range results {
		out = append(out, &podconfigv1.ManifestExpectation{Ref: r.GetRef(), Digest: r.GetPreviousDigest()})
	}
	return out
}

// explainWrite is explain for a write: a message with a problem in each line becomes one error for each. files are those that the
// request has.
func (c *connection) explainWrite(err error, files ...*podconfigv1.ManifestFile) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.AlreadyExists, codes.Aborted, codes.NotFound, codes.ResourceExhausted:
	case codes.PermissionDenied:
		// A refusal of a document begins with its place: the caller may write, but not this. All others are about the caller.
		if !slices.ContainsFunc(files, func(f *podconfigv1.ManifestFile) bool { return beginsWithPlace(st.Message(), f.GetName()) }) {
			return c.explain(err)
		}
	default:
		return c.explain(err)
	}
	var lines []error
	for line := range strings.SplitSeq(st.Message(), "\n") {
		lines = append(lines, &callError{text: line, err: err})
	}
	if st.Code() == codes.Aborted {
		lines = append(lines, &callError{text: "nothing was written; run it again to see the present difference", err: err})
	}
	return errors.Join(lines...)
}

// beginsWithPlace reports whether a message begins with a line of the file: "web.yaml:12: ".
func beginsWithPlace(message, file string) bool {
	rest, ok := strings.CutPrefix(message, file+":")
	number, _, found := strings.Cut(rest, ": ")
	_, err := strconv.ParseUint(number, 10, 31)
	return file != "" && ok && found && err == nil
}

// noteFindings prints the warnings about the manifests.
func (t *tool) noteFindings(findings []*podconfigv1.Finding) {
	for _, f := range findings {
		text := findingText(f)
		if f.GetField() != "" {
			text = f.GetField() + ": " + text
		}
		t.note("warning: %s: %s", originText(f), text)
	}
}

// printResults prints a line for each document, as kubectl does, or the response as a document.
func (t *tool) printResults(resp proto.Message, results []*podconfigv1.ManifestResult, dry dryRun) error {
	if !t.output.IsTable() {
		return (&render.Documents{Out: t.Stdout, Format: t.output}).Print(render.Proto{Message: resp})
	}
	for _, r := range results {
		if _, err := fmt.Fprintln(t.Stdout, render.Escape(resultLine(r, dry))); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// resultLine says what a write did, or would do, to a document, in kubectl's words: "pod/web created".
func resultLine(r *podconfigv1.ManifestResult, dry dryRun) string {
	kind, name := strings.ToLower(r.GetRef().GetKind()), r.GetRef().GetName()
	word := strings.ToLower(enumWord(r.GetAction(), "MANIFEST_ACTION_", "unspecified"))
	object := kind + "/" + name
	switch r.GetAction() {
	case podconfigv1.ManifestAction_MANIFEST_ACTION_ABSENT:
		word = "not found"
	case podconfigv1.ManifestAction_MANIFEST_ACTION_DELETED:
		object = fmt.Sprintf("%s %q", kind, name)
		word += " from " + r.GetRef().GetNamespace() + " namespace"
	}
	word += dry.suffix()
	if by := r.GetPreviousCaller(); by != "" {
		word += ", which " + by + " had applied"
	}
	return object + " " + word
}
