package differential

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// enums are the values of the string types with few values.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[v1.RestartPolicy]():                           {"Always", "OnFailure", "Never"},
	reflect.TypeFor[v1.ContainerRestartPolicy]():                  {"Always", "OnFailure", "Never"},
	reflect.TypeFor[v1.DNSPolicy]():                               {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
	reflect.TypeFor[v1.PullPolicy]():                              {"Always", "IfNotPresent", "Never"},
	reflect.TypeFor[v1.Protocol]():                                {"TCP", "UDP", "SCTP"},
	reflect.TypeFor[v1.URIScheme]():                               {"HTTP", "HTTPS"},
	reflect.TypeFor[v1.TerminationMessagePolicy]():                {"File", "FallbackToLogsOnError"},
	reflect.TypeFor[v1.TolerationOperator]():                      {"Exists", "Equal", "Lt", "Gt"},
	reflect.TypeFor[v1.TaintEffect]():                             {"NoSchedule", "PreferNoSchedule", "NoExecute"},
	reflect.TypeFor[v1.MountPropagationMode]():                    {"None", "HostToContainer", "Bidirectional"},
	reflect.TypeFor[v1.RecursiveReadOnlyMode]():                   {"Disabled", "IfPossible", "Enabled"},
	reflect.TypeFor[v1.HostPathType]():                            {"", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"},
	reflect.TypeFor[v1.StorageMedium]():                           {"", "Memory", "HugePages", "HugePages-2Mi", "HugePages-x", "HugePages-0", "HugePages-1Gi"},
	reflect.TypeFor[v1.SeccompProfileType]():                      {"Localhost", "RuntimeDefault", "Unconfined"},
	reflect.TypeFor[v1.AppArmorProfileType]():                     {"Localhost", "RuntimeDefault", "Unconfined"},
	reflect.TypeFor[v1.ProcMountType]():                           {"Default", "Unmasked"},
	reflect.TypeFor[v1.PodFSGroupChangePolicy]():                  {"Always", "OnRootMismatch"},
	reflect.TypeFor[v1.SupplementalGroupsPolicy]():                {"Merge", "Strict"},
	reflect.TypeFor[v1.PodSELinuxChangePolicy]():                  {"Recursive", "MountOption"},
	reflect.TypeFor[v1.PreemptionPolicy]():                        {"Never", "PreemptLowerPriority"},
	reflect.TypeFor[v1.OSName]():                                  {"linux", "windows"},
	reflect.TypeFor[v1.Signal]():                                  {"SIGTERM", "SIGUSR1", "SIGRTMIN", "SIGRTMAX-14", "SIGTHR", "SIGINT", "TERM", "15"},
	reflect.TypeFor[v1.NodeInclusionPolicy]():                     {"Honor", "Ignore"},
	reflect.TypeFor[v1.UnsatisfiableConstraintAction]():           {"DoNotSchedule", "ScheduleAnyway"},
	reflect.TypeFor[v1.NodeSelectorOperator]():                    {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"},
	reflect.TypeFor[metav1.LabelSelectorOperator]():               {"In", "NotIn", "Exists", "DoesNotExist"},
	reflect.TypeFor[v1.ResourceResizeRestartPolicy]():             {"NotRequired", "RestartContainer"},
	reflect.TypeFor[v1.AzureDataDiskKind]():                       {"Shared", "Dedicated", "Managed"},
	reflect.TypeFor[v1.AzureDataDiskCachingMode]():                {"None", "ReadOnly", "ReadWrite"},
	reflect.TypeFor[v1.ContainerRestartRuleAction]():              {"Restart", "RestartAllContainers"},
	reflect.TypeFor[v1.ContainerRestartRuleOnExitCodesOperator](): {"In", "NotIn"},
	reflect.TypeFor[v1.PersistentVolumeAccessMode]():              {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
	reflect.TypeFor[v1.PersistentVolumeMode]():                    {"Block", "Filesystem"},
	reflect.TypeFor[v1.Capability]():                              {"SYS_ADMIN", "CAP_SYS_ADMIN", "NET_ADMIN", "ALL", "all"},
	reflect.TypeFor[v1.ResourceName]():                            {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "storage", "example.com/gpu"},
	reflect.TypeFor[v1.PodConditionType]():                        {"example.com/ready", "Ready"},
}

// The values that any field of a kind may have.
var (
	texts = []string{
		"", " ", "a", "web", "Web", "web_1", "a.b", "-a", "a-", "a b", " a", "a ", "..", "../a", "a/../b", "..a", "/", "/a", "/a/", "a:b", "/a:b",
		"$(X)", "1", "-1", "8080", "http", "https", "1.2.3.4", "::1", "01.2.3.4", "1.2.3", "::ffff:1.2.3.4", "example.com", "example.com/a",
		"example.com/a/b", "/a/b", "a/", "kubernetes.io/hostname", "metadata.name", "status.podIP", "status.podIPs", "status.hostIP", "spec.nodeName",
		"spec.serviceAccountName", "metadata.labels['a']", "metadata.annotations['A b']", "metadata.annotations", "metadata.labels", "metadata.uid",
		"limits.cpu", "requests.hugepages-2Mi", "limits.example.com/gpu", "requests.cpu", "limits.ephemeral-storage", "é", "a\nb", "\x00", "*",
		"localhost/a", "runtime/default", "unconfined", "docker/default", "v1", "nginx", "nginx:latest", "nginx@sha256:0", " nginx", "=", "A=B",
		"SIGTERM", "name", "items", "true", "bogus", "Bogus",
	}
	numbers    = []float64{-1, 0, 1, 2, 3, 10, 100, 511, 512, 1000, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, 1 << 53, 1.5}
	quantities = []string{
		"-1", "0", "1", "1m", "100m", "1.5", "2Mi", "3Mi", "4Mi", "1Mi", "1Gi", "64Mi", "128Mi", "100Gi", "1e3", "0.0001", "bogus", "", "1u",
	}
	lengths = []int{15, 16, 63, 64, 253, 254, 300, 1025, 5000}
)

// corpus has the values of the base pods, by type and by field.
type corpus struct {
	byType  map[reflect.Type][]any
	byField map[string][]any
}

func newCorpus(bases []base) *corpus {
	c := &corpus{byType: map[reflect.Type][]any{}, byField: map[string][]any{}}
	for _, b := range bases {
		for _, s := range sitesOf(b.tree, podType) {
			c.byType[s.typ] = append(c.byType[s.typ], s.value)
			if isLeaf(s.typ) {
				c.byField[s.field] = append(c.byField[s.field], s.value)
			}
		}
	}
	return c
}

// value returns a random value for a field of the type.
func (c *corpus) value(r *rand.Rand, t reflect.Type, field string, depth int) any {
	t = bare(t)
	if isLeaf(t) {
		return c.leaf(r, t, field)
	}
	if known := c.byType[t]; len(known) > 0 && r.IntN(3) > 0 {
		return copied(pick(r, known))
	}
	switch t.Kind() {
	case reflect.Struct:
		object := map[string]any{}
		members := membersOf(t)
		// Few fields at a time: a struct with all fields would be rejected for many reasons.
		for range r.IntN(4) {
			if m := pick(r, members); depth > 0 {
				object[m.name] = c.value(r, m.typ, m.name, depth-1)
			}
		}
		return object
	case reflect.Map:
		object := map[string]any{}
		for range r.IntN(3) {
			object[c.key(r, t)] = c.value(r, t.Elem(), field, depth-1)
		}
		return object
	default:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, c.value(r, t.Elem(), field, depth-1))
		}
		return list
	}
}

// key returns a random key for a map.
func (c *corpus) key(r *rand.Rand, t reflect.Type) string {
	if names := enums[t.Key()]; names != nil && r.IntN(3) > 0 {
		return pick(r, names)
	}
	return c.text(r)
}

func (c *corpus) text(r *rand.Rand) string {
	if r.IntN(10) == 0 {
		return strings.Repeat("a", pick(r, lengths))
	}
	return pick(r, texts)
}

func (c *corpus) leaf(r *rand.Rand, t reflect.Type, field string) any {
	if known := c.byField[field]; len(known) > 0 && r.IntN(2) == 0 {
		return pick(r, known)
	}
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return pick(r, quantities)
	case t == reflect.TypeFor[intstr.IntOrString]() && r.IntN(2) == 0:
		return pick(r, numbers)
	case t == reflect.TypeFor[metav1.Time]():
		return pick(r, []any{"2024-01-01T00:00:00Z", "bogus", nil})
	case t == reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{"f:metadata": map[string]any{}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return r.IntN(2) == 0
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8:
		return pick(r, numbers)
	}
	if names := enums[t]; names != nil && r.IntN(3) > 0 {
		return pick(r, names)
	}
	return c.text(r)
}

// spoiled returns the value at a site with one change, and a description of the change.
func (c *corpus) spoiled(r *rand.Rand, s site) (value any, how string) {
	switch value := s.value.(type) {
	case string:
		switch r.IntN(8) {
		case 0:
			return value + value, "doubled"
		case 1:
			return value + strings.Repeat("a", pick(r, lengths)), "too long"
		case 2:
			return pick(r, []string{" ", "\t"}) + value, "padded"
		case 3:
			return value + " ", "padded"
		case 4:
			return strings.ToUpper(value), "in upper case"
		case 5:
			return strings.ToLower(value), "in lower case"
		}
	case []any:
		if s.typ.Kind() != reflect.Slice {
			break
		}
		switch {
		case len(value) > 0 && r.IntN(3) > 0:
			return append(value[:len(value):len(value)], copied(pick(r, value))), "with an element twice"
		case r.IntN(4) == 0:
			many := make([]any, 0, 40)
			for range cap(many) {
				many = append(many, c.value(r, s.typ.Elem(), s.field, 2))
			}
			return many, "with too many elements"
		default:
			return append(value[:len(value):len(value)], c.value(r, s.typ.Elem(), s.field, 3)), "with one more element"
		}
	case map[string]any:
		more := copied(value).(map[string]any)
		if s.typ.Kind() == reflect.Map {
			key := c.key(r, s.typ)
			more[key] = c.value(r, s.typ.Elem(), s.field, 2)
			return more, "with " + key
		}
		if s.typ.Kind() == reflect.Struct && !isLeaf(s.typ) {
			if r.IntN(40) == 0 {
				more["bogus"] = c.text(r)
				return more, "with an unknown member"
			}
			m := pick(r, membersOf(s.typ))
			more[m.name] = c.value(r, m.typ, m.name, 3)
			return more, "with " + m.name
		}
	}
	return c.value(r, s.typ, s.field, 3), "replaced"
}

// empty returns the empty value of the same kind.
func empty(value any) any {
	switch value.(type) {
	case string:
		return ""
	case bool:
		return false
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	case nil:
		return nil
	}
	return float64(0)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// pathText returns a path in the form of field errors.
func pathText(path []any) string {
	var b strings.Builder
	for i, element := range path {
		switch element := element.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", element)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(element)
		}
	}
	return b.String()
}
