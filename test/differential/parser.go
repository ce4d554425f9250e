package differential

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"

	"github.com/podstream/podstream/test/parsepods/wire"
)

// Manifest is one document, and its origin.
type Manifest struct {
	Origin string
	URL    bool
	Node   string
	Text   []byte
}

// Parser runs manifest.Parse in the program parsepods, which is built with the product's versions of the Kubernetes
// libraries.
type Parser struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	stderr  bytes.Buffer
}

// StartParser starts the program. The caller ends it with Close.
func StartParser(program string) (*Parser, error) {
	p := &Parser{cmd: exec.Command(program)}
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p.in, p.answers = in, json.NewDecoder(bufio.NewReader(out))
	return p, nil
}

// Send sends a batch. The program reads a whole batch before it answers, so Answers may be called later.
func (p *Parser) Send(batch []Manifest) error {
	requests := make([]wire.Request, len(batch))
	for i, m := range batch {
		requests[i] = wire.Request{Origin: m.Origin, URL: m.URL, Node: m.Node, Manifest: m.Text}
	}
	if err := json.NewEncoder(p.in).Encode(requests); err != nil {
		return fmt.Errorf("send manifests: %w", err)
	}
	return nil
}

// Answers returns the answers to the oldest batch without answers.
func (p *Parser) Answers() ([]wire.Answer, error) {
	var answers []wire.Answer
	if err := p.answers.Decode(&answers); err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	return answers, nil
}

// Close ends the program.
func (p *Parser) Close() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("parsepods: %w: %s", err, p.stderr.Bytes())
	}
	return nil
}
