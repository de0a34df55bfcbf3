// Uploads a file with tus-js-client as its own program: one JSON line with what became of it.
//
//     node tus_client.js FOLDER_OF_MODULES '{"file", "urls", "chunkSize", "abortAfter", ...}'
const fs = require("node:fs");
const path = require("node:path");
const { Transform } = require("node:stream");

const tus = require(path.join(process.argv[2], "node_modules", "tus-js-client"));
const given = JSON.parse(process.argv[3]);
const told = { requests: [] };

const file = fs.createReadStream(given.file);
if (given.holdAfter) {
  // The client opens the file again for each request. Beyond these bytes nothing is sent, however fast the machine is,
  // before the file `until` is there; without one the client stops.
  const open = fs.createReadStream;
  let passed = 0;
  const held = () =>
    new Transform({
      transform(chunk, _encoding, next) {
        passed += chunk.length;
        if (passed < given.holdAfter) next(null, chunk);
        else if (given.until) whenThere(given.until, () => next(null, chunk));
        // What lies in the sockets by then is thrown away, so the server is given time to take it.
        else setTimeout(stop, 2000);
      },
    });
  fs.createReadStream = (...options) => open(...options).pipe(held());
}

const upload = new tus.Upload(file, {
  endpoint: given.endpoint,
  headers: given.headers,
  metadata: given.metadata,
  chunkSize: given.chunkSize ?? Number.POSITIVE_INFINITY,
  uploadDataDuringCreation: given.uploadDataDuringCreation ?? false,
  urlStorage: new tus.FileUrlStorage(given.urls),
  retryDelays: Array(400).fill(250),
  onAfterResponse(request, response) {
    told.requests.push([request.getMethod(), response.getStatus()]);
    if (request.getMethod() === "HEAD") told.resumedAt ??= Number(response.getHeader("Upload-Offset"));
    told.fileId = response.getHeader("Upload-File-Id") ?? told.fileId;
  },
  onSuccess() {
    finish("done");
  },
  onError(error) {
    told.error = String(error);
    finish("failed");
  },
});

function whenThere(name, then) {
  if (fs.existsSync(name)) then();
  else setTimeout(whenThere, 20, name, then);
}

async function stop() {
  await upload.abort(given.terminate ?? false);
  finish("aborted");
}

function finish(outcome) {
  console.log(JSON.stringify({ outcome, url: upload.url, ...told }));
  process.exit(0);
}

upload.findPreviousUploads().then((previous) => {
  told.previous = previous.length;
  if (previous.length) upload.resumeFromPreviousUpload(previous[0]);
  upload.start();
});
