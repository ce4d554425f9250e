package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
)

// TestGatewayRole: the binding is to the role of the gateways.
func TestGatewayRole(t *testing.T) {
	ref := readGateway(t).binding.RoleRef
	for _, object := range read(t, "gateway-rbac.yaml") {
		if role, ok := object.(*rbacv1.ClusterRole); ok && ref.Kind == "ClusterRole" && role.Name == ref.Name {
			return
		}
	}
	t.Errorf("gateway-rbac.yaml has no %s %s", ref.Kind, ref.Name)
}

// serviceAccountCA is the CA of the cluster in each container of a pod with a service account's token.
const serviceAccountCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// TestGatewayFiles: podconfigd has each flag of the arguments, the volumes have the files that these name, and
// podconfigd accepts the access file.
func TestGatewayFiles(t *testing.T) {
	pages, err := os.ReadFile("../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	podconfigd, _, _ := strings.Cut(string(pages), "\n## podexecd")
	c := readGateway(t).container()
	for _, arg := range c.Args {
		flag, value, _ := strings.Cut(arg, "=")
		if !strings.Contains(podconfigd, "`"+flag+"`") && !strings.Contains(podconfigd, "`"+flag+" ") {
			t.Errorf("podconfigd has no flag %s", flag)
		}
		if strings.HasPrefix(value, "/") && !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
			return strings.HasPrefix(value, m.MountPath+"/") && (m.ReadOnly || flag == "--root-dir")
		}) && value != serviceAccountCA {
			t.Errorf("%s isn't in a volume", arg)
		}
	}
	ca, dir := certtest.NewCA(t, "ca"), t.TempDir()
	cert, key := ca.Issue(certtest.Request{Server: true})
	cfg := access.Config{File: "gateway/access.yaml"}
	for name, of := range map[string]struct {
		path *string
		data []byte
	}{"cert": {&cfg.CertFile, cert}, "key": {&cfg.KeyFile, key}, "ca": {&cfg.ClientCAFile, ca.PEM}, "nodes": {&cfg.NodeClientCAFile, ca.PEM}} {
		*of.path = filepath.Join(dir, name)
		certtest.WriteFile(t, *of.path, of.data)
	}
	if _, err := access.New(cfg); err != nil {
		t.Error(err)
	}
}

// TestGatewayComponents: the components' patches are of existing objects, and cert-manager's Certificate makes the
// Secret that the pods mount, with the names of the Service.
func TestGatewayComponents(t *testing.T) {
	g := readGateway(t)
	for _, file := range []string{"deployment.yaml", "namespace.yaml"} {
		patch := read(t, "gateway/host-network/"+file)[0].(metav1.Object)
		if patch.GetName() != g.deployment.Name && patch.GetName() != g.namespace.Name {
			t.Errorf("%s patches %s, which isn't there", file, patch.GetName())
		}
	}
	data, err := os.ReadFile("gateway/cert-manager/certificate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var certificate struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			SecretName            string
			Duration, RenewBefore metav1.Duration
			PrivateKey            struct {
				Algorithm, RotationPolicy string
				Size                      int
			}
			Usages, DNSNames []string
			IssuerRef        struct{ Kind, Name string }
		}
	}
	if err := yaml.UnmarshalStrict(data, &certificate); err != nil {
		t.Fatal(err)
	}
	mounted := g.deployment.Spec.Template.Spec.Volumes[1].Secret.SecretName
	name := g.service.Name + "." + g.namespace.Name + ".svc"
	if s := certificate.Spec; s.SecretName != mounted || !slices.Contains(s.DNSNames, name) || certificate.Namespace != g.namespace.Name {
		t.Errorf("the certificate is %+v; want the secret %s and the name %s", certificate, mounted, name)
	}
}

// TestShards: the gateways of all shards are there, each with its own number and namespace, and one address leads to all.
func TestShards(t *testing.T) {
	dirs, err := filepath.Glob("gateway-shards/*/kustomization.yaml")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("the shards are %q, %v", dirs, err)
	}
	const host = "tcp://podstream-gateway.podstream-shard-"
	for i := range dirs {
		text, err := os.ReadFile(fmt.Sprintf("gateway-shards/%d/kustomization.yaml", i))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			fmt.Sprintf("namespace: podstream-shard-%d\n", i), fmt.Sprintf("value: --shard=%d}", i),
			fmt.Sprintf("value: --total-shards=%d}", len(dirs)), fmt.Sprintf("%s{shard/%d}.svc:7443", host, len(dirs)),
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("shard %d lacks %q", i, want)
			}
		}
		if kubectl := "../.tools/kubectl"; exists(kubectl) {
			built, err := exec.CommandContext(t.Context(), kubectl, "kustomize", fmt.Sprintf("gateway-shards/%d", i)).Output()
			if err != nil || strings.Contains(string(built), "podstream-system") || !strings.Contains(string(built), fmt.Sprintf("- --shard=%d\n", i)) {
				t.Errorf("shard %d is built as %s, %v", i, built, err)
			}
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestKustomize: kubectl builds the gateway, alone and with each component, and the result decodes strictly.
func TestKustomize(t *testing.T) {
	kubectl, err := filepath.Abs("../.tools/kubectl")
	if _, missing := os.Stat(kubectl); err != nil || missing != nil {
		t.Skip("there is no .tools/kubectl; make tools TOOLS=kubectl builds it")
	}
	base, err := filepath.Abs("gateway")
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"", "cert-manager", "host-network"} {
		dir := t.TempDir()
		relative, err := filepath.Rel(dir, base)
		if err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + relative + "]\n"
		if component != "" {
			text += "components: [" + relative + "/" + component + "]\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		built, err := exec.CommandContext(t.Context(), kubectl, "kustomize", dir).Output()
		if err != nil {
			t.Fatalf("%q: %v", component, err)
		}
		g, file := &gateway{}, filepath.Join(dir, "built.yaml")
		var kept []string
		for document := range strings.SplitSeq(string(built), "\n---\n") {
			if !strings.Contains(document, "kind: Certificate\n") && !strings.Contains(document, "kind: ConfigMap\n") {
				kept = append(kept, document)
			}
		}
		if err := os.WriteFile(file, []byte(strings.Join(kept, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, object := range read(t, file) {
			if err := g.add(object); err != nil {
				t.Error(err)
			}
		}
		want := map[string][]string{"host-network": {"namespaces of the host"}}[component]
		if got := g.problems(); !slices.Equal(got, want) {
			t.Errorf("with the component %q the problems are %q; want %q", component, got, want)
		}
		if g.container().Image != "podstream/podconfigd:dev" {
			t.Errorf("the image is %s", g.container().Image)
		}
	}
}
