package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (t *tool) volumesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "volumes",
		Aliases: []string{"volume"},
		Short:   "Show, remove, export and import the volumes of static pods' claims",
		Long: `Volumes shows the directories of the claims of static pods, below podexecd's --volume-dir. A directory outlives the pod, the
claim and the manifest; only "volumes rm" removes it.

"volumes rm", "volumes export" and "volumes import" take the role of an operator. A volume is named [NAMESPACE/]CLAIM.`,
		Example: `  podctl volumes
  podctl volumes -o wide
  podctl volumes export default/data -o data.tar
  podctl volumes import default/data data.tar
  podctl volumes rm default/data`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runVolumes(cmd.Context()) },
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Show the volumes of static pods' claims", Long: cmd.Long, Args: noArguments, RunE: cmd.RunE,
	}
	t.addListFlags(cmd.Flags())
	t.addListFlags(list.Flags())
	cmd.AddCommand(list, t.removeVolumesCommand(), t.exportVolumeCommand(), t.importVolumeCommand())
	return cmd
}

// runVolumes prints the volumes.
func (t *tool) runVolumes(ctx context.Context) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	volumes, err := t.listVolumes(ctx)
	if err != nil {
		return err
	}
	if volumes, err = sorted(t, volumes, func(v *podexecv1.Volume) any { return render.Proto{Message: v} }); err != nil {
		return err
	}
	if !t.output.IsTable() {
		var list []render.Proto
		for _, v := range volumes {
			list = append(list, render.Proto{Message: v})
		}
		return t.documents("volume").Print(struct {
			Volumes []render.Proto `json:"volumes"`
		}{render.OrEmpty(list)})
	}
	if len(volumes) == 0 {
		t.note("no volumes found")
		return nil
	}
	header := []string{"NAMESPACE", "NAME", "SIZE", "USED BY", "CLAIMED", "AGE"}
	wide := t.output == render.WideFormat
	if wide {
		header = append(header, "FILES", "PATH")
	}
	table := t.newTable(header...)
	for _, v := range volumes {
		table.Row(t.volumeCells(v, wide)...)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	t.noteVolumes(volumes)
	return nil
}

// noteVolumes prints what the table has no room for.
func (t *tool) noteVolumes(volumes []*podexecv1.Volume) {
	for _, v := range volumes {
		if v.GetProblem() != "" {
			t.note("volume %s: %s", volumeName(v), v.GetProblem())
		}
	}
	if slices.ContainsFunc(volumes, (*podexecv1.Volume).GetUnsettled) {
		t.note("podexecd doesn't know all pods and claims yet: USED BY and CLAIMED may lack some")
	}
}

func (t *tool) volumeCells(v *podexecv1.Volume, wide bool) []string {
	size, files, age := "<unknown>", "<unknown>", "<unknown>"
	if v.SizeBytes != nil {
		size = podsummary.Size(uint64(max(v.GetSizeBytes(), 0))) //nolint:gosec // It isn't negative.
		files = strconv.FormatInt(v.GetFiles(), 10)
	}
	if v.GetCreatedTime() != nil {
		age = podsummary.Age(t.Clock.Now(), v.GetCreatedTime())
	}
	var pods []string
	for _, p := range v.GetUsedBy() {
		name := p.GetName()
		if name == "" {
			name = p.GetUid()
		}
		pods = append(pods, name)
	}
	users := strings.Join(pods, ",")
	if users == "" {
		users = "<none>"
	}
	cells := []string{v.GetNamespace(), v.GetName(), size, users, strconv.FormatBool(v.GetClaimed()), age}
	if wide {
		cells = append(cells, files, v.GetPath())
	}
	return cells
}

// volumeName is the name of a volume, as commands take it.
func volumeName(v interface {
	GetNamespace() string
	GetName() string
}) string {
	return v.GetNamespace() + "/" + v.GetName()
}

func (t *tool) listVolumes(ctx context.Context) ([]*podexecv1.Volume, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	volumes, err := allPages(t.newListSize(), func(token string) ([]*podexecv1.Volume, string, error) {
		resp, err := client.ListVolumes(ctx, &podexecv1.ListVolumesRequest{PageToken: token})
		return resp.GetVolumes(), resp.GetNextPageToken(), err
	})
	if err != nil {
		return nil, conn.explain(err)
	}
	return volumes, nil
}

// oneVolume is the name of a volume on a command line: [NAMESPACE/]CLAIM.
type oneVolume struct{ namespace, name string }

func parseVolume(text string) (oneVolume, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		namespace, name = string(defaultNamespace), text
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return oneVolume{}, fmt.Errorf("want [NAMESPACE/]CLAIM; %q isn't a volume", text)
	}
	return oneVolume{namespace, name}, nil
}

func (v oneVolume) String() string { return v.namespace + "/" + v.name }

func (t *tool) removeVolumesCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm VOLUME...",
		Short: "Remove volumes of static pods' claims with their data",
		Long: `Rm removes volumes with all that is in them, for ever. It removes none that a pod uses, or that a claim names to which a pod of
podconfigd refers; nor one in which something is mounted, nor while podexecd doesn't know all pods of the node. Remove the manifest
first.

On a terminal it asks; elsewhere it needs --yes or --force.`,
		Example: `  podctl volumes rm data
  podctl volumes rm -y default/data default/cache`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want the names of volumes")
			}
			named := map[oneVolume]string{}
			for _, a := range args {
				v, err := parseVolume(a)
				if err != nil {
					return err
				}
				if before, ok := named[v]; ok { // The second removal would fail, or remove what a pod has made since.
					return fmt.Errorf("volume %s is named twice, as %q and %q; nothing is removed", v, before, a)
				}
				named[v] = a
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.runRemoveVolumes(cmd.Context(), args, yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "remove without asking")
	cmd.Flags().BoolVarP(&yes, "force", "f", false, "as --yes; a volume that is used or claimed isn't removed with it either")
	return cmd
}

func (t *tool) runRemoveVolumes(ctx context.Context, args []string, yes bool) error {
	if ok, err := t.agreed(ctx, yes, fmt.Sprintf("Remove %s with all data: %s?", plural(len(args), "volume"), strings.Join(args, " "))); err != nil || !ok {
		return err
	}
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	var errs []error
	for _, a := range args {
		v, _ := parseVolume(a)
		// Without a time limit: a volume may have many files.
		resp, err := client.RemoveVolume(ctx, &podexecv1.RemoveVolumeRequest{Namespace: v.namespace, Name: v.name})
		if err != nil {
			errs = append(errs, conn.explain(err))
			continue
		}
		if _, err := fmt.Fprintln(t.Stdout, render.Escape(v.String()+" removed")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		t.noteLeft(v, resp.GetLeft())
	}
	return errors.Join(errs...)
}

// noteLeft prints what is left of removed content.
func (t *tool) noteLeft(v oneVolume, left string) {
	if left != "" {
		t.note("a part of what volume %s had is still on disk, until podexecd starts again: %s", v, left)
	}
}

// agreed asks a question on a terminal, unless the answer is yes already.
func (t *tool) agreed(ctx context.Context, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if terminalOf(t.Stdin) == nil {
		return false, errors.New("nothing was removed: standard input is no terminal, so give --yes to remove these volumes")
	}
	_, _ = fmt.Fprintf(t.Stderr, "%s [y/N] ", render.Escape(question))
	answer, err := t.readLine(ctx)
	if err != nil {
		return false, err
	}
	ok := slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
	if !ok {
		t.note("nothing was removed")
	}
	return ok, nil
}
