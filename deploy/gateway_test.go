package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// gateway is the objects of gateway/.
type gateway struct {
	namespace  *v1.Namespace
	account    *v1.ServiceAccount
	binding    *rbacv1.ClusterRoleBinding
	deployment *appsv1.Deployment
	service    *v1.Service
	budget     *policyv1.PodDisruptionBudget
	policy     *networkingv1.NetworkPolicy
}

func (g *gateway) add(object runtime.Object) error {
	switch o := object.(type) {
	case *v1.Namespace:
		g.namespace = o
	case *v1.ServiceAccount:
		g.account = o
	case *rbacv1.ClusterRoleBinding:
		g.binding = o
	case *appsv1.Deployment:
		g.deployment = o
	case *v1.Service:
		g.service = o
	case *policyv1.PodDisruptionBudget:
		g.budget = o
	case *networkingv1.NetworkPolicy:
		g.policy = o
	default:
		return fmt.Errorf("there is a %T", object)
	}
	return nil
}

// resources returns the file names in a kustomization.
func resources(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	return k.Resources
}

func readGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{}
	for _, file := range resources(t, "gateway/kustomization.yaml") {
		for _, object := range read(t, filepath.Join("gateway", file)) {
			if err := g.add(object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
	return g
}

// problems returns what keeps the objects from working together.
func (g *gateway) problems() (out []string) {
	wrong := func(bad bool, text string) {
		if bad {
			out = append(out, text)
		}
	}
	spec := g.deployment.Spec
	pod := labels.Set(spec.Template.Labels)
	selects := func(s *metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && !selector.Empty() && selector.Matches(pod)
	}
	for _, o := range []metav1.Object{g.account, g.deployment, g.service, g.budget, g.policy} {
		wrong(o.GetNamespace() != g.namespace.Name, o.GetName()+": namespace")
	}
	wrong(*spec.Replicas != 3, "replicas")
	wrong(!selects(spec.Selector), "deployment: selector")
	wrong(!selects(g.budget.Spec.Selector) || g.budget.Spec.MaxUnavailable.IntValue() != 1, "budget")
	wrong(!selects(&g.policy.Spec.PodSelector), "policy: selector")
	wrong(!labels.SelectorFromSet(g.service.Spec.Selector).Matches(pod) || len(g.service.Spec.Selector) == 0, "service: selector")
	wrong(g.service.Spec.ClusterIP != v1.ClusterIPNone || !g.service.Spec.PublishNotReadyAddresses, "service: not every address")
	wrong(spec.Template.Spec.ServiceAccountName != g.account.Name, "deployment: service account")
	wrong(len(g.binding.Subjects) != 1 || g.binding.Subjects[0].Name != g.account.Name || g.binding.Subjects[0].Namespace != g.namespace.Name,
		"binding: subject")
	spread := spec.Template.Spec.TopologySpreadConstraints
	wrong(!slices.ContainsFunc(spread, func(c v1.TopologySpreadConstraint) bool {
		return c.TopologyKey == v1.LabelHostname && c.WhenUnsatisfiable == v1.DoNotSchedule && selects(c.LabelSelector)
	}), "no spread over nodes")
	return append(append(out, restricted(&spec.Template.Spec)...), g.portProblems()...)
}

// portProblems returns the ports that the container doesn't have.
func (g *gateway) portProblems() (out []string) {
	c := g.deployment.Spec.Template.Spec.Containers[0]
	numbers := map[string]int32{}
	for _, p := range c.Ports {
		numbers[p.Name] = p.ContainerPort
	}
	port := func(where string, p *intstr.IntOrString) {
		if p == nil || numbers[p.StrVal] == 0 {
			out = append(out, where+": port")
		}
	}
	for name, probe := range map[string]*v1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		want := map[bool]string{true: "/readyz", false: "/healthz"}[name == "readiness"]
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want {
			out = append(out, name+": probe")
			continue
		}
		port(name, &probe.HTTPGet.Port)
	}
	port("service", &g.service.Spec.Ports[0].TargetPort)
	for _, rule := range g.policy.Spec.Ingress {
		port("policy", rule.Ports[0].Port)
	}
	for _, flag := range []string{fmt.Sprintf("--listen=tcp://:%d", numbers["grpc"]), fmt.Sprintf("--metrics-address=:%d", numbers["metrics"])} {
		if !slices.Contains(c.Args, flag) {
			out = append(out, "arguments: no "+flag)
		}
	}
	return out
}

// restricted returns what the Pod Security Standard "restricted" forbids, and missing resources.
func restricted(spec *v1.PodSpec) (out []string) {
	wrong := func(bad bool, text string) {
		if bad {
			out = append(out, text)
		}
	}
	p := spec.SecurityContext
	wrong(p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.RunAsUser == nil || *p.RunAsUser == 0, "runs as root")
	wrong(p == nil || p.SeccompProfile == nil || p.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
	wrong(spec.HostNetwork || spec.HostPID || spec.HostIPC, "namespaces of the host")
	for _, c := range spec.Containers {
		s := c.SecurityContext
		wrong(s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "privilege escalation")
		wrong(s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem, "writable root filesystem")
		wrong(s == nil || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") || len(s.Capabilities.Add) > 0, "capabilities")
		wrong(c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero(), "resources")
	}
	for _, v := range spec.Volumes {
		wrong(v.HostPath != nil, "volume of the host")
	}
	return out
}

// TestGateway: an API server accepts each manifest of the gateway, and they fit together.
func TestGateway(t *testing.T) {
	for _, p := range readGateway(t).problems() {
		t.Error(p)
	}
}

// TestGatewayProblems checks the check: it finds each planted mistake.
func TestGatewayProblems(t *testing.T) {
	yes, no := true, false
	for want, plant := range map[string]func(*gateway){
		"replicas":                           func(g *gateway) { *g.deployment.Spec.Replicas = 5 },
		"deployment: selector":               func(g *gateway) { g.deployment.Spec.Selector = &metav1.LabelSelector{} },
		"budget":                             func(g *gateway) { g.budget.Spec.MaxUnavailable = &intstr.IntOrString{IntVal: 3} },
		"policy: selector":                   func(g *gateway) { g.policy.Spec.PodSelector.MatchLabels = map[string]string{"a": "b"} },
		"service: selector":                  func(g *gateway) { g.service.Spec.Selector = nil },
		"service: not every address":         func(g *gateway) { g.service.Spec.ClusterIP = "" },
		"podstream-gateway: namespace":       func(g *gateway) { g.service.Namespace = "default" },
		"deployment: service account":        func(g *gateway) { g.deployment.Spec.Template.Spec.ServiceAccountName = "" },
		"binding: subject":                   func(g *gateway) { g.binding.Subjects[0].Namespace = "default" },
		"no spread over nodes":               func(g *gateway) { g.deployment.Spec.Template.Spec.TopologySpreadConstraints = nil },
		"runs as root":                       func(g *gateway) { g.deployment.Spec.Template.Spec.SecurityContext.RunAsNonRoot = &no },
		"no seccomp profile":                 func(g *gateway) { g.deployment.Spec.Template.Spec.SecurityContext.SeccompProfile = nil },
		"namespaces of the host":             func(g *gateway) { g.deployment.Spec.Template.Spec.HostNetwork = true },
		"privilege escalation":               func(g *gateway) { g.container().SecurityContext.AllowPrivilegeEscalation = &yes },
		"writable root filesystem":           func(g *gateway) { g.container().SecurityContext.ReadOnlyRootFilesystem = &no },
		"capabilities":                       func(g *gateway) { g.container().SecurityContext.Capabilities.Add = []v1.Capability{"NET_ADMIN"} },
		"resources":                          func(g *gateway) { g.container().Resources.Limits = nil },
		"volume of the host":                 func(g *gateway) { g.deployment.Spec.Template.Spec.Volumes[0].HostPath = &v1.HostPathVolumeSource{} },
		"readiness: probe":                   func(g *gateway) { g.container().ReadinessProbe.HTTPGet.Path = "/healthz" },
		"liveness: port":                     func(g *gateway) { g.container().LivenessProbe.HTTPGet.Port.StrVal = "http" },
		"service: port":                      func(g *gateway) { g.service.Spec.Ports[0].TargetPort.StrVal = "https" },
		"policy: port":                       func(g *gateway) { g.policy.Spec.Ingress[0].Ports[0].Port.StrVal = "https" },
		"arguments: no --listen=tcp://:7443": func(g *gateway) { g.container().Args = []string{"--metrics-address=:9400"} },
	} {
		g := readGateway(t)
		plant(g)
		if got := g.problems(); !slices.Equal(got, []string{want}) {
			t.Errorf("the planted mistake %q is found as %q", want, got)
		}
	}
}

func (g *gateway) container() *v1.Container { return &g.deployment.Spec.Template.Spec.Containers[0] }
