package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// timeout is the time limit of kubectl's own waits.
const timeout = "--timeout=120s"

// web is a Deployment that always has as many ready pods as it wants.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: ` + sampleImage + `
        args: [serve, ":8080"]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`

// A Deployment starts, rolls to another image and back, and restarts. It always has ready pods.
func TestDeployment(t *testing.T) {
	s := newSpace(t)
	s.apply(t, web)
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	first := s.ofImage(t, sampleImage, 3)
	watch := s.watchReady(t)
	s.kubectl(t, "set", "image", "deployment/web", "main="+nextImage)
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	second := s.ofImage(t, nextImage, 3)
	s.kubectl(t, "rollout", "restart", "deployment/web")
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	third := s.ofImage(t, nextImage, 3)
	s.kubectl(t, "rollout", "undo", "deployment/web", "--to-revision=1")
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	fourth := s.ofImage(t, sampleImage, 3)
	seen := map[string]bool{}
	for _, name := range slices.Concat(first, second, third, fourth) {
		if seen[name] {
			t.Errorf("pod %s outlived a rollout", name)
		}
		seen[name] = true
	}
	if least := watch(); least < 3 {
		t.Errorf("there were only %d ready pods for a moment; want 3 always", least)
	}
	s.kubectl(t, "scale", "deployment/web", "--replicas=0")
	s.awaitPods(t, "no pod is left", func(pods map[string]*corev1.Pod) error { return when(len(pods) == 0) })
}

// ofImage waits until there are this many ready pods of the image, and no others, and returns their names.
func (s *space) ofImage(t *testing.T, image string, count int) []string {
	t.Helper()
	pods := s.awaitPods(t, fmt.Sprintf("there are %d pods of %s", count, image), func(pods map[string]*corev1.Pod) error {
		for _, pod := range pods {
			if !isReady(pod) || pod.Spec.Containers[0].Image != image {
				return fmt.Errorf("pod %s of %s is %s", pod.Name, pod.Spec.Containers[0].Image, describe(pod))
			}
		}
		return when(len(pods) == count)
	})
	var names []string
	for name := range pods {
		names = append(names, name)
	}
	return names
}

// watchReady counts the ready pods. The returned function ends that and returns the minimum.
func (s *space) watchReady(t *testing.T) func() int {
	t.Helper()
	list := rig.Get(s.site.Client.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{}))(t)
	w := rig.Get(s.site.Client.CoreV1().Pods(s.name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	ready := map[string]bool{}
	for _, pod := range list.Items {
		ready[pod.Name] = isReady(&pod)
	}
	count := func() (n int) {
		for _, r := range ready {
			if r {
				n++
			}
		}
		return n
	}
	least, done := count(), make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				ready[pod.Name] = isReady(pod)
				least = min(least, count())
			}
		}
	}()
	return func() int {
		w.Stop()
		<-done
		return least
	}
}

// A Job runs to its completions. A Job whose pods fail ends as failed, with the exit code.
func TestJob(t *testing.T) {
	s := newSpace(t)
	s.apply(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: good}, spec: {completions: 4, parallelism: 2, template: {spec: {
restartPolicy: Never, containers: [{name: main, image: "`+toolsImage+`", `+shell("echo done; exit 0")+`}]}}}}`)
	s.kubectl(t, "wait", "--for=condition=complete", "job/good", timeout)
	pods := s.awaitPods(t, "four pods have succeeded", func(pods map[string]*corev1.Pod) error {
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodSucceeded {
				return fmt.Errorf("pod %s is %s", pod.Name, describe(pod))
			}
		}
		return when(len(pods) == 4)
	})
	for name := range pods {
		if log := s.kubectl(t, "logs", name); log != "done\n" {
			t.Errorf("pod %s, which has ended, has the log %q", name, log)
		}
	}
	s.apply(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: bad}, spec: {backoffLimit: 1, template: {spec: {
restartPolicy: Never, containers: [{name: main, image: "`+sampleImage+`", `+sample("exit", "3")+`}]}}}}`)
	s.kubectl(t, "wait", "--for=condition=failed", "job/bad", timeout)
	codes := s.kubectl(t, "get", "pods", "-l", "job-name=bad", "-o", "jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}")
	if codes != "3 3" {
		t.Errorf("the exit codes of the failed Job's pods are %q; want 3, twice", codes)
	}
	s.apply(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: late}, spec: {activeDeadlineSeconds: 3, template: {spec: {
restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: "`+sampleImage+`", `+sample("sleep")+`}]}}}}`)
	s.kubectl(t, "wait", "--for=jsonpath={.status.conditions[?(@.type==\"Failed\")].reason}=DeadlineExceeded", "job/late", timeout)
	s.kubectl(t, "delete", "jobs", "--all")
	s.awaitPods(t, "no pod is left", func(pods map[string]*corev1.Pod) error { return when(len(pods) == 0) })
}

// A CronJob starts its Job each minute, and by hand.
func TestCronJob(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(t, `{apiVersion: batch/v1, kind: CronJob, metadata: {name: tick}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {
restartPolicy: OnFailure, containers: [{name: main, image: "`+toolsImage+`", `+shell("echo tick")+`}]}}}}}}`)
	complete := func(what string, of func(name string) bool) {
		rig.Get(await(t.Context(), s.jobs(), what, func(jobs map[string]*batchv1.Job) error {
			for _, job := range jobs {
				if of(job.Name) && job.Status.Succeeded == 1 {
					return nil
				}
			}
			return errNo
		}))(t)
	}
	s.kubectl(t, "create", "job", "by-hand", "--from=cronjob/tick")
	complete("the Job by hand is complete", func(name string) bool { return name == "by-hand" })
	complete("a Job of the schedule is complete", func(name string) bool { return strings.HasPrefix(name, "tick-") })
	s.kubectl(t, "delete", "cronjob/tick")
}

// A DaemonSet has one pod on the node, which is replaced when its template changes.
func TestDaemonSet(t *testing.T) {
	s := newSpace(t)
	s.apply(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}},
template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {kubernetes.io/hostname: main}, hostNetwork: true, containers: [
{name: main, image: "`+sampleImage+`", `+sample("sleep")+`, env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]}}}}`)
	s.kubectl(t, "rollout", "status", "daemonset/agent", timeout)
	first := s.ofImage(t, sampleImage, 1)
	if ip := s.kubectl(t, "get", "pod", first[0], "-o", "jsonpath={.status.podIP} {.status.hostIP}"); ip != here.IP+" "+here.IP {
		t.Errorf("the pod in the node's network has the addresses %q; want the node's, %s", ip, here.IP)
	}
	s.kubectl(t, "set", "image", "daemonset/agent", "main="+nextImage)
	s.kubectl(t, "rollout", "status", "daemonset/agent", timeout)
	s.ofImage(t, nextImage, 1)
}

// A StatefulSet's pods start in order and end in reverse. A deleted pod is created again under its name.
func TestStatefulSet(t *testing.T) {
	s := newSpace(t)
	s.apply(t, `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: `+toolsImage+`
        args: [serve, ":8080"]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`)
	s.kubectl(t, "rollout", "status", "statefulset/db", timeout)
	names := s.ofImage(t, toolsImage, 3)
	slices.Sort(names)
	if want := []string{"db-0", "db-1", "db-2"}; !slices.Equal(names, want) {
		t.Fatalf("the pods are %v; want %v", names, want)
	}
	pods := s.awaitPods(t, "there are pods", func(map[string]*corev1.Pod) error { return nil })
	for i, name := range names[1:] {
		before := podCondition(pods[names[i]], corev1.PodReady).LastTransitionTime
		if created := pods[name].CreationTimestamp; created.Before(&before) {
			t.Errorf("pod %s was created at %v, when %s wasn't ready before %v", name, created, names[i], before)
		}
	}
	if got := s.kubectl(t, "exec", "db-1", "--", "sh", "-c", "cat /etc/hostname; cat /etc/hosts"); !strings.HasPrefix(got, "db-1\n") ||
		!strings.Contains(got, "db-1.db."+s.name+".svc") {
		t.Errorf("pod db-1 has the names %q; want db-1, and that of its Service", got)
	}
	old := pods["db-1"].UID
	s.kubectl(t, "delete", "pod", "db-1")
	s.awaitPod(t, "db-1", "is ready again, as another one", func(pod *corev1.Pod) error { return when(isReady(pod) && pod.UID != old) })
	s.kubectl(t, "scale", "statefulset/db", "--replicas=1")
	s.awaitPods(t, "only db-0 is left", func(pods map[string]*corev1.Pod) error {
		if pods["db-0"] == nil || pods["db-0"].DeletionTimestamp != nil {
			return errors.New("db-0 goes too")
		}
		return when(len(pods) == 1)
	})
}
