// Command labelpods decides with which SELinux contexts volumes are mounted, for the pods that it reads from stdin, until stdin
// ends. test/differential/selinux compares its answers with the kubelet's functions. It is a separate program because
// test/differential is built with an older version of the Kubernetes libraries.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
	"github.com/podstream/podstream/test/labelpods/wire"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "labelpods:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	requests, buffered := json.NewDecoder(bufio.NewReader(in)), bufio.NewWriter(out)
	answers := json.NewEncoder(buffered)
	for {
		var r wire.Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		answer, err := decide(r)
		if err == nil {
			err = answers.Encode(answer)
		}
		if err == nil {
			err = buffered.Flush()
		}
		if err != nil {
			return fmt.Errorf("answer a request: %w", err)
		}
	}
}

// policy has the labels of package wire.
type policy struct{}

// Enabled is part of selinuxmount.Labels.
func (policy) Enabled() bool { return true }

// FileLabel is part of selinuxmount.Labels.
func (policy) FileLabel(o *v1.SELinuxOptions) (string, error) {
	return wire.FileLabel(o.User, o.Level), nil
}

func decide(r wire.Request) (wire.Answer, error) {
	var pod v1.Pod
	if err := json.Unmarshal(r.Pod, &pod); err != nil {
		return wire.Answer{}, err
	}
	v := selinuxmount.Volume{Pod: &pod, Name: r.Volume, Mountable: r.Mountable, Persistent: r.Persistent}
	for _, mode := range r.Modes {
		v.Modes = append(v.Modes, v1.PersistentVolumeAccessMode(mode))
	}
	c := selinuxmount.Chooser{Labels: policy{}, OnlyReadWriteOncePod: !r.Gate}
	var a wire.Answer
	var err error
	a.Context, a.Matters, err = c.Context(v)
	if _, ok := errors.AsType[*selinuxmount.MultipleLabelsError](err); ok {
		a.Multiple = true
	} else if err != nil {
		a.Error = err.Error()
	}
	return a, nil
}
