// Command pullchecks performs operations on image pull records that it reads from stdin, until stdin ends.
// test/differential/pulls compares its answers with the kubelet's pull manager. It is a separate program because
// test/differential is built with an older version of the Kubernetes libraries.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/pullrecord"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/imagepolicy"
	"github.com/podstream/podstream/test/pullchecks/wire"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pullchecks:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	requests, answers, n := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out), &node{}
	for {
		var r wire.Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		var answer wire.Answer
		var err error
		if answer.MustPull, err = n.do(r); err != nil {
			answer.Error = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

// node has the records, and the pulls under way by image.
type node struct {
	records *pullrecord.Records
	pulls   map[string][]image.Intent
}

func (n *node) do(r wire.Request) (mustPull bool, err error) {
	switch r.Op {
	case wire.Start:
		policy, err := imagepolicy.New(kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy(r.Policy), r.Allowlist)
		if err != nil {
			return false, err
		}
		n.pulls = map[string][]image.Intent{}
		n.records, err = pullrecord.New(pullrecord.Config{RootDir: r.Dir, Policy: policy})
		return false, err
	case wire.Intend:
		i, err := n.records.Intend(r.Image, "")
		n.pulls[r.Image] = append(n.pulls[r.Image], i)
		return false, err
	case wire.Pulled, wire.Failed:
		under := n.pulls[r.Image]
		if len(under) == 0 {
			return false, errors.New("it isn't being pulled")
		}
		last := under[len(under)-1]
		n.pulls[r.Image] = under[:len(under)-1]
		if r.Op == wire.Failed {
			return false, last.Failed()
		}
		_, full, err := image.Canonical(r.Image)
		return false, errors.Join(err, last.Pulled(&runtimeapi.Image{Id: r.ID, RepoTags: []string{full}}, logins(r.Logins)))
	case wire.Check:
		return n.check(r)
	case wire.List:
		done := n.records.Listing()
		var images []*runtimeapi.Image
		for _, i := range r.Images {
			images = append(images, &runtimeapi.Image{Id: i.ID, RepoTags: i.Names})
		}
		done(images)
		return false, nil
	}
	return false, fmt.Errorf("unknown operation %q", r.Op)
}

func (n *node) check(r wire.Request) (mustPull bool, err error) {
	use := imageaccess.Use{ID: r.ID, Given: r.Image, Names: r.Names, AccountKnown: true}
	if use.Repository, use.Name, err = image.Canonical(r.Image); err != nil {
		return false, err
	}
	given := logins(r.Logins)
	use.Secrets = func() []imageaccess.Login { return given }
	for _, login := range given {
		if login.Account != nil && use.Account == nil {
			use.Account = login.Account
		}
	}
	return n.records.Check(use).Access != imageaccess.Allowed, nil
}

func logins(given []wire.Login) []imageaccess.Login {
	var out []imageaccess.Login
	for _, l := range given {
		var login imageaccess.Login
		if s := l.Secret; s != nil {
			login.Secret = &imageaccess.Secret{UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: s.Hash}
		}
		if a := l.Account; a != nil {
			login.Account = &imageaccess.Account{UID: a.UID, Namespace: a.Namespace, Name: a.Name}
		}
		out = append(out, login)
	}
	return out
}
