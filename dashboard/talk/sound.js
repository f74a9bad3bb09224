// The browser's microphone and loudspeaker, as 24 kHz PCM.

export const RATE_HZ = 24000;
export const FRAME = 1920; // samples: 80 ms

/**
 * Opens microphone and loudspeaker; resolves to the functions `play`, `end`, `clear` and `close`.
 *
 * `onFrame(samples)` gets each 80 ms of the microphone, `onReport` the state of the queue four times a second. Throws
 * an error if the user or the browser refuses the microphone.
 */
export async function openSound(onFrame, onReport) {
  if (!navigator.mediaDevices) throw new Error("A browser gives its microphone to https pages and to this machine only.");
  const wanted = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: wanted });
  const context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: "interactive" });
  const close = () => {
    stream.getTracks().forEach((track) => track.stop());
    return context.close();
  };
  try {
    await context.audioWorklet.addModule("worklet.js");
    await context.resume();
    const microphone = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
    const player = new AudioWorkletNode(context, "player", { numberOfInputs: 0, outputChannelCount: [1] });
    microphone.port.onmessage = ({ data }) => onFrame(data);
    player.port.onmessage = ({ data }) => onReport(data);
    context.createMediaStreamSource(stream).connect(microphone);
    player.connect(context.destination);
    return {
      play: (samples) => player.port.postMessage(samples),
      end: () => player.port.postMessage("end"),
      clear: () => player.port.postMessage("clear"),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Converts float samples, which are clipped to -1..1, to 16-bit PCM in base64, as in the realtime protocol. */
export function toBase64(samples) {
  const bytes = new Uint8Array(2 * samples.length);
  const view = new DataView(bytes.buffer);
  samples.forEach((sample, n) => view.setInt16(2 * n, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return btoa(String.fromCharCode(...bytes));
}

/** Converts 16-bit PCM in base64 to float samples. */
export function fromBase64(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 1 }, (_, n) => view.getInt16(2 * n, true) / 32768);
}

/** Returns the level of a frame on a logarithmic scale: 1 for an RMS of 0 dBFS, 0 from -50 dBFS down. */
export function level(samples) {
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return Math.max(0, 1 + Math.log10(power + 1e-9) / 5);
}
