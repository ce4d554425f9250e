package main

import (
	"strings"

	"github.com/podstream/podstream/test/devnode"
)

// pod is a static pod.
type pod struct{ name, spec string }

func (p pod) manifest() string {
	head := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + p.name + ", namespace: default}\nspec:\n  terminationGracePeriodSeconds: 1\n"
	return head + strings.ReplaceAll(p.spec, "IMAGE", devnode.SampleImage)
}

// first are the pods before the first scrape. They make the series of restarts, failed starts, failed pulls, probes,
// limits and volumes.
var first = []pod{
	{"web", `  containers:
  - name: web
    image: IMAGE
    imagePullPolicy: IfNotPresent
    args: [serve, ":8080"]
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
    readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 1}
    livenessProbe: {httpGet: {port: 8080, path: /live}, periodSeconds: 2}
`},
	{"volumes", `  initContainers:
  - {name: first, image: IMAGE, imagePullPolicy: IfNotPresent, args: [write, /scratch/file, text], volumeMounts: [{name: scratch, mountPath: /scratch}]}
  containers:
  - {name: main, image: IMAGE, imagePullPolicy: IfNotPresent, args: [sleep], volumeMounts: [{name: info, mountPath: /info}]}
  - {name: busy, image: IMAGE, imagePullPolicy: IfNotPresent, args: [count, "100"], volumeMounts: [{name: scratch, mountPath: /scratch}]}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: info, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
`},
	{"restarts", `  containers:
  - {name: main, image: IMAGE, imagePullPolicy: IfNotPresent, args: [exit, "3", 1s]}
  - {name: other, image: IMAGE, imagePullPolicy: IfNotPresent, args: [sleep]}
`},
	{"fails", `  containers:
  - {name: unstartable, image: IMAGE, imagePullPolicy: IfNotPresent, command: [/no/such/program]}
  - {name: unpullable, image: "localhost:1/none:1", args: [sleep]}
`},
	{"waits", `  containers:
  - {name: main, image: IMAGE, imagePullPolicy: IfNotPresent, args: [sleep], volumeMounts: [{name: gone, mountPath: /gone}]}
  volumes: [{name: gone, hostPath: {path: /no/such/directory, type: Directory}}]
`},
	{"ends", `  containers:
  - {name: main, image: IMAGE, imagePullPolicy: IfNotPresent, args: [sleep]}
`},
}

// later are the pods after the first scrape.
var later = []pod{{"later", `  containers:
  - name: main
    image: IMAGE
    imagePullPolicy: IfNotPresent
    args: [sleep]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {medium: Memory}}]
`}}
