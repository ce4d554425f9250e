package podctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// deleteOptions are the flags of delete.
type deleteOptions struct {
	manifestOptions
	namespace     oneNamespace
	ignoreMissing bool
	dryRun        dryRun
	wait          effectWait
}

func (t *tool) deleteCommand() *cobra.Command {
	o := deleteOptions{namespace: defaultNamespace}
	cmd := &cobra.Command{
		Use:   "delete POD... | delete -f FILE...",
		Short: "Remove applied pods",
		Long: `Delete removes pods, ConfigMaps, Secrets and PersistentVolumeClaims from podconfigd's source "applied": all of them, or none. They
are named as POD, KIND/NAME or KIND NAME..., or are those that the manifests of -f name. The data of a claim stays: "podctl volumes rm"
removes it.

A pod of another source isn't removed. The error says where it is from: of a file, remove the file; of the API server, use kubectl.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) > 0) == (len(o.files) > 0) {
				return errors.New("want the names of pods, or -f")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.runDelete(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	o.addFlags(flags)
	flags.VarP(&o.namespace, "namespace", "n", "the `namespace` of the pods that are named")
	flags.BoolVar(&o.ignoreMissing, "ignore-not-found", false, "a document that doesn't exist is no error")
	o.dryRun.addFlag(flags)
	o.wait.addFlags(flags, "until nothing is left of the pods")
	return cmd
}

func (t *tool) runDelete(ctx context.Context, o deleteOptions, args []string) error {
	refs, err := refsOf(args, string(o.namespace))
	if err != nil {
		return err
	}
	if len(o.files) > 0 {
		if refs, err = t.refsInFiles(ctx, o.manifestOptions); err != nil {
			return err
		}
	}
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	asked, cancel := t.writeContext(ctx)
	defer cancel()
	req := &podconfigv1.DeleteManifestsRequest{Refs: refs, IgnoreMissing: o.ignoreMissing, DryRun: o.dryRun.on()}
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).DeleteManifests(asked, req, grpc.MaxCallRecvMsgSize(maxDiff))
	if err != nil {
		return conn.explainWrite(err)
	}
	if err := t.printResults(resp, resp.GetResults(), o.dryRun); err != nil || o.dryRun.on() {
		return err
	}
	return t.await(ctx, o.wait, written{resp.GetResults(), resp.GetInstanceId(), resp.GetRevision()})
}

// kindWords are kubectl's words for the kinds.
var kindWords = map[string]string{
	"pod": "Pod", "pods": "Pod", "po": "Pod", "configmap": "ConfigMap", "configmaps": "ConfigMap", "cm": "ConfigMap",
	"secret": "Secret", "secrets": "Secret", "persistentvolumeclaim": "PersistentVolumeClaim",
	"persistentvolumeclaims": "PersistentVolumeClaim", "pvc": "PersistentVolumeClaim",
}

// refsOf returns the documents that are named on a command line: NAME, KIND/NAME, or KIND and then names.
func refsOf(args []string, namespace string) ([]*podconfigv1.ManifestRef, error) {
	kind := "Pod"
	if len(args) > 1 && kindWords[args[0]] != "" {
		kind, args = kindWords[args[0]], args[1:]
	}
	var out []*podconfigv1.ManifestRef
	for _, arg := range args {
		ref := &podconfigv1.ManifestRef{Kind: kind, Namespace: namespace, Name: arg}
		if word, name, ok := strings.Cut(arg, "/"); ok {
			if kindWords[word] == "" {
				return nil, fmt.Errorf("%s: want pod/NAME, configmap/NAME, secret/NAME or pvc/NAME", arg)
			}
			ref.Kind, ref.Name = kindWords[word], name
		}
		out = append(out, ref)
	}
	return out, nil
}

// refsInFiles returns the documents that the manifests define.
func (t *tool) refsInFiles(ctx context.Context, o manifestOptions) ([]*podconfigv1.ManifestRef, error) {
	files, err := t.readFiles(ctx, o)
	if err != nil {
		return nil, err
	}
	var out []*podconfigv1.ManifestRef
	for _, file := range files {
		// As podconfigd splits a file.
		for text := range manifest.Documents(file.GetContent()) {
			at := fmt.Sprintf("%s:%d", file.GetName(), text.Line)
			var doc struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal(text.Text, &doc); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			if doc.Metadata.Name == "" || doc.Kind == "" || kindWords[strings.ToLower(doc.Kind)] != doc.Kind {
				return nil, fmt.Errorf("%s: a document of the kind %q and the name %q is no pod, ConfigMap, Secret or PersistentVolumeClaim", at, doc.Kind, doc.Metadata.Name)
			}
			out = append(out, &podconfigv1.ManifestRef{Kind: doc.Kind, Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name})
		}
	}
	return out, nil
}
