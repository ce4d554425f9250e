//go:build race

package bench

// raceDetector takes several times the memory of the program that it watches.
const raceDetector = true
