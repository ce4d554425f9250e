package world

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/inside"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	rows := make([]row, 0, len(environments))
	for _, r := range environments {
		r.ownNamespace, r.beside = true, []string{
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: conf, namespace: "{{namespace}}"}, data: {host: db, port: "5432", not.a.c.name: x}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: cred, namespace: "{{namespace}}"}, stringData: {user: admin, token: "hush\n"}}`,
		}
		rows = append(rows, r)
	}
	runRows(t, latest, rows)
}

// env expects the variables to have these values. "-" means that the variable isn't set.
func env(want map[string]string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		got := map[string]string{}
		for name := range want {
			value, ok := r.Env[name]
			if !ok {
				value = "-"
			}
			got[name] = value
		}
		return same("the environment", got, want)
	}
}

var environments = []row{
	{
		// Variables of the node, of other pods and of services aren't set.
		name: "env of nothing",
		node: func(p *pod, found map[string]*inside.Report) error {
			return same("the environment", found["main"].Env, map[string]string{
				"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": p.name, "HOME": "/",
			})
		},
	},
	{
		name: "env value",
		spec: `
containers:
- name: main
  env:
  - {name: A, value: "one two\n'\"$ "}
  - {name: EMPTY, value: ""}
  - {name: NONE}
  - {name: TWICE, value: first}
  - {name: TWICE, value: second}
  - {name: dotted.name-1, value: x}
  - {name: PATH, value: /bin}`,
		check: env(map[string]string{"A": "one two\n'\"$ ", "EMPTY": "", "NONE": "", "TWICE": "second", "dotted.name-1": "x", "PATH": "/bin"}),
	},
	{
		name: "env references",
		spec: `
containers:
- name: main
  env:
  - {name: A, value: a}
  - {name: B, value: $(A)-$(A)}
  - {name: C, value: $(B)$$(A)$$$(A)}
  - {name: LATE, value: $(AFTER)}
  - {name: AFTER, value: x}
  - {name: ODD, value: "$(A $() $A ${A} $"}
  - {name: USER, valueFrom: {secretKeyRef: {name: cred, key: user}}}
  - {name: URL, value: "http://$(USER)@host"}`,
		check: env(map[string]string{
			"B": "a-a", "C": "a-a$(A)$a", "LATE": "$(AFTER)", "ODD": "$(A $() $A ${A} $", "URL": "http://admin@host",
		}),
	},
	{
		name: "env fieldRef",
		meta: `{labels: {app: shop}, annotations: {example.com/note: "a note"}, uid: 0123-env}`,
		spec: `
containers:
- name: main
  env:
  - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
  - {name: NO_LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['none']"}}}
  - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['example.com/note']"}}}
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  - {name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
  - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
  - {name: HOST_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}`,
		node: func(p *pod, found map[string]*inside.Report) error {
			// The status has the pod's addresses later than the containers.
			s := p.await("the addresses", func(pod *v1.Pod) error {
				if pod.Status.PodIP == "" || pod.Status.HostIP == "" {
					return errors.New("they aren't known")
				}
				return nil
			}).Status
			var ips, hosts []string
			for _, ip := range s.PodIPs {
				ips = append(ips, ip.IP)
			}
			for _, ip := range s.HostIPs {
				hosts = append(hosts, ip.IP)
			}
			return env(map[string]string{
				"NAME": p.name, "NAMESPACE": p.namespace, "POD_UID": "0123-env", "LABEL": "shop", "NO_LABEL": "", "NOTE": "a note", "NODE": p.b.Name,
				"ACCOUNT": "", "POD_IP": s.PodIP, "POD_IPS": strings.Join(ips, ","), "HOST_IP": s.HostIP, "HOST_IPS": strings.Join(hosts, ","),
			})(found["main"])
		},
	},
	{
		name: "env fieldRef in the network of the node",
		spec: `
hostNetwork: true
containers:
- name: main
  env:
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}`,
		check: func(r *inside.Report) error {
			if r.Env["POD_IP"] == "" {
				return errors.New("status.podIP is empty")
			}
			return env(map[string]string{"POD_IP": r.Env["HOST_IP"]})(r)
		},
	},
	{
		name: "env resourceFieldRef",
		spec: `
containers:
- name: main
  resources: {limits: {cpu: 250m, memory: 64Mi}, requests: {cpu: 100m, memory: 32Mi, ephemeral-storage: 1Gi}}
  env:
  - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
  - {name: MILLICPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
  - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
  - {name: MEBI, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
  - {name: WANTS_CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
  - {name: WANTS_KIBI, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Ki}}}
  - {name: STORAGE, valueFrom: {resourceFieldRef: {resource: requests.ephemeral-storage, divisor: 1Gi}}}
  - {name: OTHERS, valueFrom: {resourceFieldRef: {containerName: other, resource: limits.memory, divisor: 1M}}}
- {name: other, args: [sleep], resources: {limits: {memory: 65M}}}`,
		check: env(map[string]string{
			"CPU": "1", "MILLICPU": "250", "MEMORY": "67108864", "MEBI": "64", "WANTS_CPU": "100", "WANTS_KIBI": "32768", "STORAGE": "1",
			"OTHERS": "65",
		}),
	},
	{
		name: "env resourceFieldRef without limits",
		spec: `
containers:
- name: main
  env:
  - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
  - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
  - {name: WANTS_CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}`,
		check: func(r *inside.Report) error {
			if len(r.Env["CPU"]) < 4 || len(r.Env["MEMORY"]) < 9 {
				return errors.New("want what the node has for pods, and not " + r.Env["CPU"] + " and " + r.Env["MEMORY"])
			}
			return env(map[string]string{"WANTS_CPU": "0"})(r)
		},
	},
	{
		name: "env configMapKeyRef and secretKeyRef",
		spec: `
containers:
- name: main
  env:
  - {name: HOST, valueFrom: {configMapKeyRef: {name: conf, key: host}}}
  - {name: TOKEN, valueFrom: {secretKeyRef: {name: cred, key: token}}}
  - {name: NO_KEY, valueFrom: {configMapKeyRef: {name: conf, key: none, optional: true}}}
  - {name: NO_SECRET_KEY, valueFrom: {secretKeyRef: {name: cred, key: none, optional: true}}}
  - {name: NO_MAP, valueFrom: {configMapKeyRef: {name: nowhere, key: none, optional: true}}}
  - {name: NO_SECRET, valueFrom: {secretKeyRef: {name: nowhere, key: none, optional: true}}}`,
		check: env(map[string]string{"HOST": "db", "TOKEN": "hush\n", "NO_KEY": "-", "NO_SECRET_KEY": "-", "NO_MAP": "-", "NO_SECRET": "-"}),
	},
	{
		name:   "env configMapKeyRef without the key",
		spec:   `containers: [{name: main, env: [{name: A, valueFrom: {configMapKeyRef: {name: conf, key: none}}}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", "couldn't find key none in ConfigMap env-configmapkeyref-without-the-key/conf"),
		events: has("Failed", "Error: couldn't find key none in ConfigMap env-configmapkeyref-without-the-key/conf"),
	},
	{
		name:   "env secretKeyRef without the secret",
		spec:   `containers: [{name: main, env: [{name: A, valueFrom: {secretKeyRef: {name: nowhere, key: none}}}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", `secret "nowhere" not found`),
	},
	{
		name: "envFrom",
		spec: `
containers:
- name: main
  envFrom:
  - configMapRef: {name: conf}
  - {prefix: DB_, configMapRef: {name: conf}}
  - {prefix: C_, secretRef: {name: cred}}
  - configMapRef: {name: nowhere, optional: true}
  - secretRef: {name: nowhere, optional: true}
  env:
  - {name: port, value: "1"}
  - {name: URL, value: $(DB_host):$(port)}`,
		check: env(map[string]string{
			"host": "db", "port": "1", "not.a.c.name": "x", "DB_host": "db", "DB_port": "5432", "C_user": "admin", "C_token": "hush\n", "URL": "db:1",
		}),
	},
	{
		name:   "envFrom without the object",
		spec:   `containers: [{name: main, envFrom: [{configMapRef: {name: nowhere}}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", `configmap "nowhere" not found`),
	},
	{
		name: "env fileKeyRef",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers:
- {name: first, args: [write, /v/vars, "# from first\nA='one'\nB='two\nlines'\n"], volumeMounts: [{name: v, mountPath: /v}]}
containers:
- name: main
  env:
  - {name: A, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: A}}}
  - {name: RENAMED, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: B}}}
  - {name: NO_KEY, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: C, optional: true}}}
  - {name: NO_FILE, valueFrom: {fileKeyRef: {volumeName: v, path: none, key: C, optional: true}}}`,
		check: env(map[string]string{"A": "one", "RENAMED": "two\nlines", "NO_KEY": "-", "NO_FILE": "-", "B": "-"}),
	},
	{
		name: "env fileKeyRef without the key",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: first, args: [write, /v/vars, "A='one'"], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: main, env: [{name: B, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: B}}}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", `environment variable key "B" not found in file "vars" of volume "v"`),
	},
	{
		name: "args are expanded",
		spec: `
containers:
- {name: main, args: [inspect, "/$(A)/$(B)", $$(A), $(NONE)], env: [{name: A, value: a a}, {name: B, value: $(A)b}]}`,
		check: argsAre("inspect", "/a a/a ab", "$(A)", "$(NONE)"),
	},
	{
		name: "command is expanded",
		spec: `
containers:
- {name: main, command: [$(PROGRAM), inspect, $(A)], args: ["x $(A)"], env: [{name: PROGRAM, value: /sample}, {name: A, value: a}]}`,
		check: argsAre("inspect", "a", "x a"),
	},
	{
		name: "workingDir",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, workingDir: /v, volumeMounts: [{name: v, mountPath: /v}]}]`,
		check: func(r *inside.Report) error { return same("the working directory", r.WorkingDir, "/v") },
	},
	{
		name: "enableServiceLinks",
		spec: `{enableServiceLinks: true, containers: [{name: main}]}`,
		check: func(r *inside.Report) error {
			for name := range r.Env {
				if strings.Contains(name, "SERVICE") {
					return errors.New("without an API server there is no service, but " + name)
				}
			}
			return nil
		},
	},
}

func argsAre(want ...string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		if !slices.Equal(r.Args, want) {
			return same("the arguments", r.Args, want)
		}
		return nil
	}
}
