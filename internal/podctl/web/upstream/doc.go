// Package upstream follows the daemons for all tabs of `podctl web`, and writes what they send to a board.Board.
//
// There is one stream of each kind to a daemon, whatever the number of tabs: the pods that podconfigd publishes, the statuses
// and the events of podexecd, and the log of each container that a tab follows. Sources, consumers and stats are polled while a
// tab needs them. A stream that breaks is opened again, with growing pauses, and goes on after what was received; its Link says
// so meanwhile.
//
// With a recording, its messages take the place of podconfigd's stream, and nothing else is asked.
//
// Package web calls Run, which starts a goroutine for each stream and waits for all of them. Package service opens logs, whose
// goroutines Run waits for as well. The package calls nothing that changes anything.
package upstream
