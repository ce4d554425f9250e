package podctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/contexts"
	"github.com/podstream/podstream/internal/podctl/render"
)

const configCommandName = "config"

func (t *tool) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   configCommandName,
		Short: "Show the contexts of podctl.yaml, and choose one",
		Long: `Config shows the contexts of podctl.yaml: the named endpoints and credentials from which podctl chooses by --context, or by the
current context. The file is ~/.config/podstream/podctl.yaml, or the one in PODCTL_CONFIG or --config:

  apiVersion: podstream.io/v1alpha1
  kind: PodctlConfig
  currentContext: node-1
  credentials:
  - {name: ops, certFile: ops.crt, keyFile: ops.key, caFile: ca.crt}
  contexts:
  - {name: node-1, podconfigEndpoint: "tcp://node-1:10257", podexecEndpoint: "tcp://node-1:10258", credentials: ops}

Only its owner, you or root, may be able to write to it.`,
	}
	getContexts := &cobra.Command{
		Use: "get-contexts", Short: "Show the contexts", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runGetContexts(cmd) },
	}
	t.addListFlags(getContexts.Flags())
	cmd.AddCommand(
		getContexts,
		&cobra.Command{
			Use: "current-context", Short: "Show the name of the current context", Args: noArguments,
			RunE: func(cmd *cobra.Command, _ []string) error { return t.runCurrentContext(cmd) },
		},
		&cobra.Command{
			Use: "use-context CONTEXT", Short: "Make a context the current one", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return t.runUseContext(cmd, args[0]) },
		},
		&cobra.Command{
			Use: "view", Short: "Show podctl.yaml as podctl reads it", Args: noArguments,
			RunE: func(cmd *cobra.Command, _ []string) error { return t.runConfigView(cmd) },
		},
	)
	return cmd
}

// mustLoad is loadContexts for a command that needs the file.
func (t *tool) mustLoad(ctx context.Context, cmd *cobra.Command) (*contexts.File, error) {
	file, err := t.loadContexts(ctx, cmd)
	if file == nil && err == nil {
		path, _ := t.configPath(cmd)
		if path == "" {
			return nil, errors.New("there is no podctl.yaml: give its path by --config or " + envConfig)
		}
		return nil, fmt.Errorf("there is no podctl.yaml: create %s, or give its path by --config or %s", path, envConfig)
	}
	return file, err
}

// contextDocument is a context in -o json and yaml.
type contextDocument struct {
	contexts.Context
	Current bool `json:"current"`
}

func (t *tool) runGetContexts(cmd *cobra.Command) error {
	file, err := t.mustLoad(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	list := []contextDocument{}
	for _, c := range file.Contexts {
		list = append(list, contextDocument{c, c.Name == file.CurrentContext})
	}
	if list, err = sorted(t, list, func(c contextDocument) any { return c }); err != nil {
		return err
	}
	if !t.output.IsTable() {
		return t.documents("context").Print(struct {
			Contexts []contextDocument `json:"contexts"`
		}{list})
	}
	table := t.newTable("CURRENT", "NAME", "PODCONFIGD", "PODEXECD", "CREDENTIALS")
	for _, c := range list {
		current := " "
		if c.Current {
			current = "*"
		}
		table.Row(current, c.Name, c.PodconfigEndpoint, c.PodexecEndpoint, c.Credentials)
	}
	return table.Flush()
}

func (t *tool) runCurrentContext(cmd *cobra.Command) error {
	file, err := t.mustLoad(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	if file.CurrentContext == "" {
		return errors.New("there is no current context: podctl config use-context chooses one")
	}
	if _, err := fmt.Fprintln(t.Stdout, render.Escape(file.CurrentContext)); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (t *tool) runUseContext(cmd *cobra.Command, name string) error {
	if _, err := t.mustLoad(cmd.Context(), cmd); err != nil {
		return err
	}
	path, _ := t.configPath(cmd)
	if err := contexts.Use(cmd.Context(), path, name, checkEndpoint); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(t.Stdout, "Switched to context %q.\n", render.Escape(name)); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (t *tool) runConfigView(cmd *cobra.Command) error {
	file, err := t.mustLoad(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	if t.output.IsTable() {
		t.output = render.YAMLFormat
	}
	return t.documents("").Print(file)
}
