package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes that aren't the caller's own.
const (
	exitOK = 0
	// exitFailed is for what was asked for properly and couldn't be done.
	exitFailed = 1
	exitUsage  = 2
	// exitTerminated is what a shell reports for a program that SIGTERM ended: 128 + 15.
	exitTerminated = 143
)

const usage = `usage: sample COMMAND [ARGUMENT...]

  sleep [DURATION]      end with 0 after DURATION (default: never)
  exit CODE [DURATION]  end with CODE, at once or after DURATION
  print TEXT...         print TEXT on a line and run on
  env                   print the environment, sorted, and run on
  serve [ADDRESS]       print arguments, host name and process id; answer HTTP "hello" on ADDRESS; run on
  ignore-term           run on, through SIGTERM too
  write PATH TEXT       write TEXT to the file PATH
  cat PATH              print the file PATH
  hog MIB               take so much memory, print "holding MIB MiB", and run on
  pause                 reap orphaned processes and run on

What runs on ends with 143 on SIGTERM or SIGINT; pause ends with 0.
`

func main() {
	// Before anything else: a TERM that comes early must not be lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	os.Exit(run(context.Background(), os.Args[1:], signals, os.Stdout, os.Stderr))
}

// program is one run: its streams, and the signals that are to end it.
type program struct {
	signals        <-chan os.Signal
	stdout, stderr io.Writer
}

// command is a subcommand. It returns the exit code.
type command struct {
	minArgs, maxArgs int // maxArgs below zero: any number
	run              func(p *program, ctx context.Context, args []string) int
}

var commands = map[string]command{
	"sleep":       {0, 1, (*program).sleep},
	"exit":        {1, 2, (*program).exit},
	"print":       {1, -1, (*program).print},
	"env":         {0, 0, (*program).env},
	"serve":       {0, 1, (*program).serve},
	"ignore-term": {0, 0, (*program).ignoreTerm},
	"write":       {2, 2, (*program).write},
	"cat":         {1, 1, (*program).cat},
	"hog":         {1, 1, (*program).hog},
	"pause":       {0, 0, (*program).pause},
}

// run carries out one command line and returns the exit code. It ends early when ctx does.
func run(ctx context.Context, args []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	p := &program{signals: signals, stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		return p.misused("no command")
	}
	name, args := args[0], args[1:]
	cmd, ok := commands[name]
	switch {
	case !ok:
		return p.misused(fmt.Sprintf("unknown command %q", name))
	case len(args) < cmd.minArgs:
		return p.misused(name + ": too few arguments")
	case cmd.maxArgs >= 0 && len(args) > cmd.maxArgs:
		return p.misused(name + ": too many arguments")
	}
	return cmd.run(p, ctx, args)
}

func (p *program) misused(why string) int {
	fmt.Fprintf(p.stderr, "sample: %s\n%s", why, usage)
	return exitUsage
}

func (p *program) failed(err error) int {
	fmt.Fprintf(p.stderr, "sample: %v\n", err)
	return exitFailed
}
