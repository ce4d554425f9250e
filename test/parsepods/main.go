// Command parsepods runs manifest.Parse on the origins that it reads from stdin, until stdin ends.
// test/differential compares its answers with the kubelet's. It is a separate program because test/differential
// is built with an older version of the Kubernetes libraries.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/test/parsepods/wire"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "parsepods:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	requests, buffered := json.NewDecoder(bufio.NewReader(in)), bufio.NewWriter(out)
	answers := json.NewEncoder(buffered)
	for {
		var batch []wire.Request
		if err := requests.Decode(&batch); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a batch: %w", err)
		}
		result := make([]wire.Answer, len(batch))
		for i, r := range batch {
			var err error
			if result[i], err = parse(r); err != nil {
				return err
			}
		}
		if err := answers.Encode(result); err != nil {
			return fmt.Errorf("write a batch: %w", err)
		}
		if err := buffered.Flush(); err != nil {
			return fmt.Errorf("write a batch: %w", err)
		}
	}
}

func parse(r wire.Request) (wire.Answer, error) {
	opts := manifest.Options{Origin: r.Origin, Node: r.Node}
	if r.URL {
		opts.OriginKind = manifest.URLKind
	}
	origin := manifest.Parse(r.Manifest, opts)
	answer := wire.Answer{Held: origin.Held}
	for _, f := range origin.Findings {
		if f.Severity == manifest.Error {
			answer.Errors = append(answer.Errors, wire.Refusal{Field: f.Field, Message: f.Message})
		}
	}
	for _, pod := range origin.Pods {
		text, err := json.Marshal(pod.Pod)
		if err != nil {
			return answer, fmt.Errorf("encode pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		answer.Pods = append(answer.Pods, text)
	}
	return answer, nil
}
