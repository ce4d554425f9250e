package podenv

import (
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

func TestEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		from []v1.EnvFromSource
		env  []v1.EnvVar
		want string
	}{
		"nothing":      {},
		"plain":        {env: []v1.EnvVar{plain("A", "1"), plain("EMPTY", "")}, want: "A=1 EMPTY="},
		"earlier only": {env: []v1.EnvVar{plain("A", "$(B)"), plain("B", "1"), plain("C", "$(A)-$(B)")}, want: "A=$(B) B=1 C=$(B)-1"},
		"twice":        {env: []v1.EnvVar{plain("A", "1"), plain("B", "$(A)"), plain("A", "$(A)$(A)")}, want: "A=11 B=1"},
		"escaped":      {env: []v1.EnvVar{plain("A", "1"), plain("B", "$$(A) $$$(A)")}, want: "A=1 B=$(A) $1"},
		"configMap":    {from: []v1.EnvFromSource{fromConfigMap("", "cm", nil)}, want: "A=cm-a B=cm-b REF=$(A) my.key=dots"},
		"prefix":       {from: []v1.EnvFromSource{fromConfigMap("1_", "cm", nil)}, want: "1_A=cm-a 1_B=cm-b 1_REF=$(A) 1_my.key=dots"},
		"later sources": {
			from: []v1.EnvFromSource{fromConfigMap("", "cm", nil), fromSecret("", "s", nil)},
			want: "A=secret-a B=cm-b REF=$(A) my.key=dots S=hunter2",
		},
		"both orders": {
			from: []v1.EnvFromSource{fromSecret("", "s", nil), fromConfigMap("", "cm", nil)},
			want: "A=cm-a S=hunter2 B=cm-b REF=$(A) my.key=dots",
		},
		"empty source": {from: []v1.EnvFromSource{fromConfigMap("", "empty", nil)}},
		"optional sources": {from: []v1.EnvFromSource{
			fromConfigMap("", "none", optional), fromSecret("", "none", optional), fromSecret("P_", "s", optional),
		}, want: "P_A=secret-a P_S=hunter2"},
		"env over envFrom": {
			from: []v1.EnvFromSource{fromConfigMap("", "cm", nil)},
			env:  []v1.EnvVar{plain("USES", "$(B)/$(A)"), plain("A", "own"), plain("TOO", "$(A)")},
			want: "A=own B=cm-b REF=$(A) my.key=dots USES=cm-b/cm-a TOO=own",
		},
		"fields": {
			env: []v1.EnvVar{
				field("NAME", "metadata.name"), field("LABEL", "metadata.labels['app']"), field("IP", "status.podIP"),
				plain("URL", "http://$(IP)/"),
			},
			want: "NAME=web LABEL=x IP=10.0.0.7 URL=http://10.0.0.7/",
		},
		"resources": {
			env:  []v1.EnvVar{limit("OWN", "", "limits.cpu"), limit("NAMED", "main", "limits.cpu"), limit("OTHER", "other", "limits.cpu")},
			want: "OWN=2 NAMED=2 OTHER=3",
		},
		"keys": {
			env:  []v1.EnvVar{configMapKey("C", "cm", "my.key", nil), secretKey("S", "s", "S", nil), plain("U", "$(S)")},
			want: "C=dots S=hunter2 U=hunter2",
		},
		"unexpanded": {env: []v1.EnvVar{plain("A", "1"), configMapKey("C", "cm", "REF", nil)}, want: "A=1 C=$(A)"},
		"optional keys": {
			env: []v1.EnvVar{
				configMapKey("C", "none", "A", optional), configMapKey("D", "cm", "none", optional),
				secretKey("S", "none", "A", optional), secretKey("T", "s", "none", optional), plain("U", "$(C)"),
			},
			want: "U=$(C)",
		},
		"optional key keeps what was before": {
			from: []v1.EnvFromSource{fromSecret("", "s", nil)}, env: []v1.EnvVar{secretKey("A", "s", "none", optional)},
			want: "A=secret-a S=hunter2",
		},
		"files": {
			env:  []v1.EnvVar{fileKey("F", "scratch", "good", "A", nil), fileKey("E", "scratch", "good", "EMPTY", nil), plain("U", "$(F)$(E)")},
			want: "F=file-a E= U=file-a",
		},
		"optional files": {
			env:  []v1.EnvVar{fileKey("F", "scratch", "none", "A", optional), fileKey("G", "scratch", "good", "NONE", optional)},
			want: "",
		},
		"value before valueFrom": {
			env:  []v1.EnvVar{{Name: "A", Value: "1", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}}},
			want: "A=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, skipped, err := Of(input(tc.from, tc.env...))
			if err != nil || len(skipped) > 0 {
				t.Fatalf("skipped %v: %v", skipped, err)
			}
			if diff := cmp.Diff(tc.want, shown(env)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Services come first, and the container's own variables may refer to them and replace them.
func TestServices(t *testing.T) {
	in := input(nil, plain("URL", "$(DB_SERVICE_HOST)"), plain("KUBERNETES_SERVICE_PORT", "6443"))
	in.Services = []criconfig.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: "10.96.0.1"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "443"}, {Name: "DB_SERVICE_HOST", Value: "10.96.0.9"},
	}
	env, _, err := Of(in)
	if err != nil {
		t.Fatal(err)
	}
	want := "KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=6443 DB_SERVICE_HOST=10.96.0.9 URL=10.96.0.9"
	if diff := cmp.Diff(want, shown(env)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInvalidNamesAreSkipped(t *testing.T) {
	env, skipped, err := Of(input([]v1.EnvFromSource{fromConfigMap("p.", "odd", nil), fromConfigMap("", "cm", nil)}))
	if err != nil || shown(env) != "p.FINE=z A=cm-a B=cm-b REF=$(A) my.key=dots" {
		t.Errorf("%s, %v", shown(env), err)
	}
	want := []string{"Keys [p.\n, p.1=2] from the EnvFrom configMap shop/odd were skipped " +
		"since they are considered invalid environment variable names."}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		from v1.EnvFromSource
		env  v1.EnvVar
		want string
	}{
		{from: fromConfigMap("", "none", nil), want: `configmap "none" not found`},
		{from: fromSecret("", "none", new(false)), want: `secret "none" not found`},
		{from: v1.EnvFromSource{Prefix: "P"}, want: "envFrom names neither a ConfigMap nor a Secret"},
		{env: configMapKey("X", "none", "A", nil), want: `configmap "none" not found`},
		{env: configMapKey("X", "cm", "none", nil), want: "couldn't find key none in ConfigMap shop/cm"},
		{env: configMapKey("X", "empty", "none", nil), want: "couldn't find key none in ConfigMap shop/empty"},
		{env: secretKey("X", "none", "A", nil), want: `secret "none" not found`},
		{env: secretKey("X", "s", "none", nil), want: "couldn't find key none in Secret shop/s"},
		{env: field("X", "status.hostIP"), want: "environment variable X: the node's address isn't known"},
		{env: field("X", "spec.containers"), want: "environment variable X: unsupported fieldPath: spec.containers"},
		{env: limit("X", "gone", "limits.cpu"), want: "environment variable X: container gone not found"},
		{env: v1.EnvVar{Name: "X", ValueFrom: &v1.EnvVarSource{}}, want: "environment variable X: valueFrom names no source"},
		{env: fileKey("X", "scratch", "none", "A", nil),
			want: `couldn't read env file "none" of volume "scratch": open none: file does not exist`},
		{env: fileKey("X", "scratch", "good", "NONE", nil),
			want: `environment variable key "NONE" not found in file "good" of volume "scratch"`},
		{env: fileKey("X", "scratch", "bad", "A", optional),
			want: `couldn't parse env file "bad" of volume "scratch": line 1: the value isn't in single quotes`},
		{env: fileKey("X", "node", "passwd", "A", optional), want: `cannot find the emptyDir volume "node" referenced by FileKeyRef`},
		{env: fileKey("X", "none", "good", "A", optional), want: `cannot find the emptyDir volume "none" referenced by FileKeyRef`},
	} {
		in := input(nil)
		if tc.env.Name != "" {
			in.Container.Env = []v1.EnvVar{tc.env}
		} else {
			in.Container.EnvFrom = []v1.EnvFromSource{tc.from}
		}
		env, skipped, err := Of(in)
		if err == nil || err.Error() != tc.want || env != nil || skipped != nil {
			t.Errorf("%v, %v, %v; want the error %s", env, skipped, err, tc.want)
		}
	}
}

// TestUnknownObjectsAreWaitedFor: an object that podconfigd hasn't sent is unknown, also if it is optional.
func TestUnknownObjectsAreWaitedFor(t *testing.T) {
	for _, in := range []Input{
		input([]v1.EnvFromSource{fromConfigMap("", "later", optional)}), input([]v1.EnvFromSource{fromSecret("", "later", optional)}),
		input(nil, configMapKey("X", "later", "A", optional)), input(nil, secretKey("X", "later", "A", optional)),
	} {
		if env, _, err := Of(in); !errors.Is(err, objects.ErrUnknown) {
			t.Errorf("%s, %v; want an ErrUnknown", shown(env), err)
		}
	}
}

// TestOneVersionOfEachObject: an object that changes during the call is not mixed from two versions.
func TestOneVersionOfEachObject(t *testing.T) {
	reads := 0
	in := input([]v1.EnvFromSource{fromSecret("", "s", nil)}, secretKey("A", "s", "A", nil), secretKey("B", "s", "A", nil),
		fileKey("F", "scratch", "f", "A", nil), fileKey("G", "scratch", "f", "A", nil))
	in.Objects = changing{held{}, &reads}
	in.ReadFile = func(string, string) ([]byte, error) {
		reads++
		return []byte("A='" + strconv.Itoa(reads) + "'"), nil
	}
	env, _, err := Of(in)
	if err != nil || shown(env) != "A=1 B=1 F=2 G=2" {
		t.Errorf("%s, %v", shown(env), err)
	}
}

type changing struct {
	held
	reads *int
}

func (c changing) Secret(string) (*v1.Secret, error) {
	*c.reads++
	return &v1.Secret{Data: map[string][]byte{"A": []byte(strconv.Itoa(*c.reads))}}, nil
}
